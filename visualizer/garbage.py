"""Python's collection of cycles, kept on the GUI thread: a widget that another thread destroys can hang the process.

The mirror and the worker's listener have threads of their own, and by itself Python collects on whichever thread
happens to allocate.
"""

import gc
from typing import Final

from PySide6.QtCore import QCoreApplication, QTimer

EVERY_MS: Final = 500


def keep_on_this_thread(app: QCoreApplication) -> None:
    """From now on cycles are collected between two events of `app`, and nowhere else."""
    gc.disable()
    timer = QTimer(app, interval=EVERY_MS)
    timer.timeout.connect(collect_what_is_due)
    timer.start()
    # what stands before the first event stays: a collection that leaves it out takes 1 ms instead of 35
    QTimer.singleShot(0, app, gc.freeze)


def collect_what_is_due() -> None:
    """Collects the oldest generation that has grown past Python's own threshold."""
    for generation, (count, threshold) in reversed(
        list(enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True)))
    ):
        if count > threshold:
            gc.collect(generation)
            return
