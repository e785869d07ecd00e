"""A module that starts a thread when it is imported, as no module should."""

import threading

from tests.support.environments.common import Do, Shown
from tests.support.environments.isolated import Isolated

_started = threading.Event()
threading.Thread(target=_started.wait, name="of the module", daemon=True).start()


class ThreadedModule(Isolated):
    """Shows the threads of its process."""

    def step(self, action: Do) -> Shown:
        return Shown(value=[thread.name for thread in threading.enumerate()])
