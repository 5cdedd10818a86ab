"""A driver library without a driver, for the real pynvml: what its cards tell stands in a file that a test may change.

Each line of the file is a card: what asking for it, for its memory and for its load returns, and the two figures;
its energy is made from its load.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

NAME = "libnvidia-ml.so.1"
OK, NOT_SUPPORTED, GPU_IS_LOST = 0, 3, 15
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
typedef struct { int card, memory, load; unsigned long long used; unsigned busy; } Card;
static int read_card(unsigned index, Card *card) {
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    unsigned line = 0;
    Card one;
    if (!file) return -1;
    while (fscanf(file, "%d %d %d %llu %u", &one.card, &one.memory, &one.load, &one.used, &one.busy) == 5)
        if (line++ == index) *card = one;
    fclose(file);
    return line;
}
int nvmlInitWithFlags(unsigned flags) { Card c; return read_card(0, &c) < 0 ? 9 : 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "570.1"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { Card c; *count = read_card(0, &c); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **handle) {
    Card c = {2};  /* an invalid argument, if there is none */
    read_card(i, &c);
    *handle = (void *)(unsigned long)(i + 1);
    return c.card;
}
int nvmlDeviceGetName(void *h, char *text, unsigned size) {
    snprintf(text, size, "card %lu", (unsigned long)h - 1);
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *h, unsigned long long *total_free_used) {
    Card c;
    read_card((unsigned long)h - 1, &c);
    total_free_used[2] = c.used;
    return c.memory;
}
int nvmlDeviceGetTotalEnergyConsumption(void *h, unsigned long long *millijoules) {
    Card c;
    read_card((unsigned long)h - 1, &c);
    *millijoules = 100 * c.busy;
    return c.load;
}
int nvmlDeviceGetUtilizationRates(void *h, unsigned *gpu_memory) {
    Card c;
    read_card((unsigned long)h - 1, &c);
    gpu_memory[0] = c.busy;
    return c.load;
}
"""


@dataclass(frozen=True)
class FakeDriver:
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """For programs that are to find it."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML": str(self.folder / "cards")}

    def tell(self, *cards: tuple[int, int, int, int, int]) -> None:
        (self.folder / "new").write_text("".join(" ".join(map(str, card)) + "\n" for card in cards))
        (self.folder / "new").replace(self.folder / "cards")


def compiled(folder: Path) -> FakeDriver:
    """Built here; without a compiler the test is skipped."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (folder / "nvml.c").write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / NAME, folder / "nvml.c"], check=True)
    return FakeDriver(folder)
