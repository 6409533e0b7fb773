"""Arrays by what they hold, and the order of a norm, for annotations."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Order = Literal[1, 2]
