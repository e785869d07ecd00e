"""Tools for tests of what plays environments: failures of environments and of models' servers, on purpose."""

from openenv.testing.faults import FAULTS as FAULTS
from openenv.testing.faults import Faults as Faults
from openenv.testing.faults import Strikes as Strikes
from openenv.testing.faults import with_faults as with_faults
from openenv.testing.model_server import MODEL_FAULTS as MODEL_FAULTS
from openenv.testing.model_server import FaultyModelServer as FaultyModelServer

__all__ = ["FAULTS", "MODEL_FAULTS", "Faults", "FaultyModelServer", "Strikes", "with_faults"]
