// Search runs in a worker, and browsers start no worker for a page that was opened from disk. There its script runs in a
// hidden frame instead. The theme looks for the name IFrameWorker on the frame's parent.
"use strict";
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.waiting = [];
      this.inside.postMessage = (data) => this.tell(new MessageEvent("message", { data }));
      this.inside.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => this.load(one)), Promise.resolve());
      this.load(url).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
    }

    load(url) {
      const page = this.inside.document;
      return new Promise((done, failed) => {
        const script = page.createElement("script");
        script.onload = done;
        script.onerror = () => failed(new Error(`${url} could not be loaded`));
        script.src = new URL(url, location.href).href;
        page.head.append(script);
      });
    }

    tell(event) {
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
