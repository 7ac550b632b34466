"""A device to practise on where there is no GPU: real results, modelled durations, real asynchrony.

It is simulated on the CPU and never counts as a GPU: `gpu.observed` stays false, and whatever is captured while it is
used says "simulated". A lab uses it through `stepprof_lab.devices`, in lines that run unchanged on CUDA and ROCm:

    from stepprof_lab import devices

    device = devices.gpu_or_practice()          # or devices.choose("practice"), choose("cuda"), ...
    begin, end = device.event(), device.event()
    begin.record()
    c = device.launch(torch.matmul, a, b, ms=20)   # returns at once; 20 ms are modelled, the product is real
    end.record()
    device.pending()                            # 1: nothing has been waited for (None on a GPU, which does not count)
    end.synchronize()
    begin.elapsed_time(end)                     # 20.0 and the gap before the launch, on the device's own timeline
    c.value()                                   # the tensor; waits where it has to

    side = device.new_stream()
    side.wait_stream(device.current_stream())
    with device.stream(side):
        device.occupy(20)                       # overlaps with what the first stream is given
    device.current_stream().wait_stream(side)
    device.synchronize()

Hidden workloads are a `Work`: ``work()`` launches everything, ``for operation in work: operation()`` one by one, side
streams join at its end, and its first call has a cost of its own (`first_ms`). Before times are judged, `calibrate`
refuses a machine that cannot hold the durations; `Engine.lateness_ns` tells how late the waits of a check were.

How it behaves: an operation starts when it was launched or when what it waits for has ended, on the device's own
timeline, computed at the launch; streams are in order and independent of each other; a result taken from another
stream that has not ended, without a wait for it, is an error. An error is raised at the next wait, once, and the device
goes on (on a GPU it would stay). Functions run in another thread without autograd and should take far less time than
they are said to take: a function that takes longer delays its result and every wait for it, not the timeline.
A first call (`first_ms`, once for each name in a process) is an entry of its own on the timeline.
"""

from stepprof_lab.practice.calibration import Calibration, calibrate, measure, of_lateness
from stepprof_lab.practice.operation import Operation, OperationFailed
from stepprof_lab.practice.simulator import Engine, engine
from stepprof_lab.practice.streams import Event, EventNotReady, Stream
from stepprof_lab.practice.work import Part, Work

__all__ = [
    "Calibration",
    "Engine",
    "Event",
    "EventNotReady",
    "Operation",
    "OperationFailed",
    "Part",
    "Stream",
    "Work",
    "calibrate",
    "engine",
    "measure",
    "of_lateness",
]
