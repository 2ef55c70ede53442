"""A service's log: lines for people, or one JSON object a line for collectors."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

LogForm = Literal["text", "json"]


def begin_log(form: LogForm) -> None:
    """Write what the service logs to standard error, from INFO on."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if form == "json" else plain)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class JsonLines(logging.Formatter):
    """One object a line: time (UTC), level, logger, message, and a traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": when,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)
