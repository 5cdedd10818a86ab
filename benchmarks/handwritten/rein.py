"""A rein for frameworks that own their training loop, so that their steps can be taken a few at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Rein:
    """Runs an endless loop in a thread. The loop calls `before_step`, which holds it while it has no steps left."""

    def __init__(self) -> None:
        self._left, self._losses, self._ended = 0, list[float](), False
        self._failure: BaseException | None = None
        self._go, self._held = threading.Semaphore(0), threading.Semaphore(0)

    def start(self, loop: Callable[[], object]) -> None:
        """Return when the loop is about to take its first step."""
        threading.Thread(target=self._run, args=(loop,), daemon=True).start()
        self._wait()

    def take(self, steps: int) -> list[float]:
        """Let the loop take so many steps; when it has, the loss of each."""
        self._left, self._losses = max(steps, 0), []
        self._go.release()
        self._wait()
        return self._losses

    def before_step(self) -> None:
        while self._left == 0:
            self._held.release()
            self._go.acquire()
        self._left -= 1

    def after_step(self, loss: float) -> None:
        self._losses.append(loss)

    def _run(self, loop: Callable[[], object]) -> None:
        try:
            loop()
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            self._failure = error
        self._ended = True
        self._held.release()

    def _wait(self) -> None:
        self._held.acquire()
        if self._ended:
            raise RuntimeError("The framework's own loop has ended.") from self._failure
