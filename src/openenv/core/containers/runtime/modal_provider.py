"""Public import path of ``ModalProvider``; it lives in ``openenv.core.providers.cloud.modal``."""

from openenv.core.providers.cloud.modal import ModalProvider

__all__ = ["ModalProvider"]
