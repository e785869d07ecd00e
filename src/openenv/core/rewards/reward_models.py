"""``ModelReward``: a reward model of transformers as a rubric. It needs the packages ``torch`` and ``transformers``."""

from threading import Lock
from typing import Any, Self

from openenv._extras import install_command
from openenv.core.rewards.samples import ReadSample, SampleRubric

__all__ = ["ModelReward"]


class ModelReward(SampleRubric):
    """The logit that a sequence classifier with one output gives a prompt with its completion.

    Copies of an environment share the model. A reward model is a small neural network that runs here: on a busy server
    put it behind an address, and use `EndpointReward`.

    Args:
        model: Folder or id of the model, or the model itself.
        tokenizer: The tokenizer; by default the model's. With a chat template the sample is a conversation.
        device: Where the model runs.
        sample: Reads what is scored; by default `sample_of`.

    Raises:
        ImportError: The packages are not installed.
        ValueError: The model has several outputs.
    """

    def __init__(
        self, model: Any, tokenizer: Any = None, *, device: str = "cpu", sample: ReadSample | None = None
    ) -> None:
        super().__init__(sample)
        self._model = _Loaded(model, tokenizer, device)

    def forward(self, action: Any, observation: Any) -> float:
        """Run the model on the sample."""
        sample = self._sample(action, observation)
        return self._model.score(sample.prompt, sample.completion)


class _Loaded:
    """A model with its tokenizer, for one call at a time."""

    def __init__(self, model: Any, tokenizer: Any, device: str) -> None:
        try:
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ImportError as error:
            raise ImportError(f"ModelReward needs torch and transformers: {install_command('train')}") from error
        if tokenizer is None:
            name = model if isinstance(model, str) else model.config._name_or_path
            tokenizer = AutoTokenizer.from_pretrained(name)
        if isinstance(model, str):
            model = AutoModelForSequenceClassification.from_pretrained(model)
        if model.config.num_labels != 1:
            raise ValueError(f"Expected a reward model with one output, got one with {model.config.num_labels}.")
        self._model = model.to(device).eval()
        self._tokenizer = tokenizer
        self._device = device
        self._lock = Lock()

    def score(self, prompt: str, completion: str) -> float:
        """Return the model's logit."""
        import torch

        inputs = self._inputs(prompt, completion).to(self._device)
        with self._lock, torch.inference_mode():
            return float(self._model(**inputs).logits[0, 0])

    def _inputs(self, prompt: str, completion: str) -> Any:
        if not self._tokenizer.chat_template:
            return self._tokenizer(f"{prompt}{completion}", return_tensors="pt")
        conversation = [{"role": "user", "content": prompt}, {"role": "assistant", "content": completion}]
        return self._tokenizer.apply_chat_template(conversation, return_tensors="pt", return_dict=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
