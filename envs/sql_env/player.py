"""A player that knows how each question is answered, and queries the database for it."""

from collections.abc import Callable

from .models import QueryAction, SqlAction, SqlObservation, SubmitAction
from .questions import QUESTIONS


class SqlPlayer:
    """Reads the question, runs the query that answers such questions, and hands in its result.

    A question that it does not know it answers with an empty list.
    """

    def __call__(self, observation: SqlObservation) -> SqlAction:
        """Choose the next action.

        Args:
            observation: The question, or the result of the query.

        Returns:
            The query, then its result as the answer.
        """
        if observation.columns:
            return SubmitAction(answer=list(observation.rows))
        sql = query_for(observation.question)
        return SubmitAction(answer=[]) if sql is None else QueryAction(sql=sql)


def query_for(question: str) -> str | None:
    """Write the query that answers a question.

    Args:
        question: The text of the question.

    Returns:
        The query; ``None`` where no such question is known.
    """
    for kind in QUESTIONS:
        values = kind.values_in(question)
        if values is not None:
            return kind.answered(values)
    return None


def make_player(seed: int) -> Callable[[SqlObservation], SqlAction]:
    """Make a player for one episode.

    Args:
        seed: Has no effect: nothing here is random.

    Returns:
        A function from observations to actions.
    """
    return SqlPlayer()
