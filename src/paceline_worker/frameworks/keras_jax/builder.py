"""Graph to Keras 3: channels last."""

from __future__ import annotations

from paceline_worker.keras3 import builder

LAYOUT = "channels_last"
LAYERS = builder.LAYERS
