"""A real browser for tests: Chromium over the DevTools pipe, with the standard library alone."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
"""Chromium reads commands from descriptor 3 and writes answers to 4."""
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--mute-audio",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)


def binary() -> str | None:
    """Where a Chromium is, if one is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Chrome:
    """One browser with one page; a context manager."""

    def __init__(self, *flags: str, patience: float = 60.0) -> None:
        self.patience = patience
        self.flags = flags
        self.events: list[dict[str, Any]] = []
        self.answers: dict[int, dict[str, Any]] = {}
        self.number = 0
        self.rest = b""

    def __enter__(self) -> Chrome:
        found = binary()
        assert found is not None
        self.home = tempfile.TemporaryDirectory(prefix="chrome-", ignore_cleanup_errors=True)
        theirs_in, self.out = _pipe()
        self.into, theirs_out = _pipe()
        flags = [*FLAGS, f"--user-data-dir={self.home.name}", *self.flags, "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", LAUNCH, str(theirs_in), str(theirs_out), found, *flags],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.home.name},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.session: str | None = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility", "DOM"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.session = None
            self.call("Browser.close")
        except (OSError, TimeoutError, EOFError):
            self.process.kill()
        for end in (self.into, self.out):
            os.close(end)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        self.home.cleanup()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; what happens meanwhile is kept in `events`."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        _write(self.out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + self.patience
        while self.number not in self.answers:
            self._receive(until)
        answer = self.answers.pop(self.number)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self, until: float) -> None:
        ready, _, _ = select.select([self.into], [], [], max(until - time.monotonic(), 0))
        if not ready:
            raise TimeoutError("the browser does not answer")
        piece = os.read(self.into, 1 << 20)
        if not piece:
            raise EOFError("the browser is gone")
        *whole, self.rest = (self.rest + piece).split(b"\0")
        for text in whole:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.events.append(message)

    def wait_for(self, method: str) -> dict[str, Any]:
        """The first event of a kind."""
        until = time.monotonic() + self.patience
        while True:
            for event in self.events:
                if event["method"] == method:
                    return event
            self._receive(until)

    def open(self, path: Path) -> None:
        """Load a file and wait until it is there; what was said and asked for before is forgotten."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def js(self, code: str) -> Any:
        """Value of an expression in the page; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, code: str) -> Any:
        """Wait until an expression is true; returns its value."""
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            if value := self.js(code):
                return value
            time.sleep(0.02)
        raise TimeoutError(code)

    def press(self, key: str, *, shift: bool = False, code: int = 0) -> None:
        """One key, as a keyboard sends it."""
        known = {"Tab": 9, "Enter": 13, "Escape": 27, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39}
        known |= {"ArrowDown": 40, " ": 32}
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        number = code or known.get(key, ord(key.upper()[0]))
        common = {"key": key, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Move, press, release or turn the wheel at a place of the view."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def size(self, width: int, height: int, scale: float = 1.0, *, mobile: bool = False) -> None:
        """Size of the view in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile
        )

    def media(self, kind: str = "", **features: str) -> None:
        """What the page is shown on: ``print``, and features such as prefers_color_scheme="dark"."""
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", media=kind, features=named)

    def picture(self, path: Path | None = None, *, whole: bool = False, clip: dict[str, float] | None = None) -> bytes:
        """A screenshot as PNG: of the view, of the whole page, or of a part."""
        more: dict[str, Any] = {"captureBeyondViewport": whole or clip is not None}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"]}
        if clip is not None:
            more["clip"] = {**clip, "scale": 1}
        png = base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"])
        if path is not None:
            path.write_bytes(png)
        return png

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def accessible(self) -> list[dict[str, Any]]:
        """The accessibility tree, as a flat list of nodes that are not ignored."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [node for node in nodes if not node.get("ignored")]

    def said(self) -> list[str]:
        """What the console and the log of the browser hold of this page."""
        texts = []
        for event in self.events:
            if event["method"] == "Log.entryAdded":
                texts.append(event["params"]["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled":
                texts.append(" ".join(str(arg.get("value", "")) for arg in event["params"]["args"]))
            elif event["method"] == "Runtime.exceptionThrown":
                texts.append(str(event["params"]["exceptionDetails"]))
        return texts

    def requested(self) -> list[str]:
        """The addresses of everything that was asked for."""
        sent = (event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent")
        return [params["request"]["url"] for params in sent]


def _pipe() -> tuple[int, int]:
    """A pipe whose ends lie above the descriptors that the browser uses."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def _write(end: int, data: bytes) -> None:
    while data:
        data = data[os.write(end, data) :]
