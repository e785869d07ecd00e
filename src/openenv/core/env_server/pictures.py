"""Public import path of pictures; they live in ``openenv.core.wire.results``."""

from openenv.core.wire.results import TEXT, Picture, picture_of, png_of

__all__ = ["TEXT", "Picture", "picture_of", "png_of"]
