"""Graph to Keras 3: channels first, as PyTorch itself counts axes."""

from __future__ import annotations

from paceline_worker.keras3 import builder

LAYOUT = "channels_first"
LAYERS = builder.LAYERS
