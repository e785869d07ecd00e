"""Manifests as people write them, with what other tools keep in them."""

OTHER_SHAPES = [
    ("action", "action: {type: object, properties: {move: {type: string}}}"),
    ("action", "action:\n  - up\n  - down"),
    ("action", "action: 4"),
    ("observation", "observation: {board: 'list[int]', text: str}"),
    ("observation", "observation: [board, score]"),
    ("client", "client: {module: client, class: MyEnv}"),
    ("client", "client: true"),
    ("environment", "environment: {PYTHONUNBUFFERED: '1'}"),
    ("environment", "environment:\n  - name: LEVEL\n    value: easy"),
    ("runtime", "runtime: {python: '3.11', gpu: false}"),
    ("runtime", "runtime: {image: my-env:latest, resources: {cpu: 2}}"),
]
"""Keys and lines of a manifest, with values that are not of the shape that OpenEnv reads."""
