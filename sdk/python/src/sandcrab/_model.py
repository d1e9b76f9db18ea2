"""The base class of the generated models."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from typing_extensions import Self

from .errors import InvalidResponseError


class Model(BaseModel):
    """A response, or a part of one. Fields that a newer server adds are kept as attributes with the names of the API."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, defer_build=True)

    @classmethod
    def parse(cls, body: Any) -> Self:
        """Returns the model of a response. One that another program has sent is an `InvalidResponseError`."""
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            raise InvalidResponseError(f"invalid response: {error}") from error


class UnknownEvent(Model):
    """An event of a type that this version does not know. Its fields are attributes with the names of the API."""

    type: str
