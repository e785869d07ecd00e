"""The application that ``openenv serve --reload`` starts anew after each change."""

import os

from openenv.auto.discovery import find_environment

app = find_environment(os.environ["OPENENV_SERVED"]).app()
