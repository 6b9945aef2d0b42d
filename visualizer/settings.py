"""What is remembered between starts: the look, the window's place, recent files, the worker's command."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final, Literal

from PySide6.QtCore import QByteArray, QSettings, QStandardPaths

RECENT: Final = 8
ZOOMS: Final = (0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5)


class Settings:
    """An INI file. What cannot be read is the default, so that a broken file never prevents the start."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or config_folder() / "settings.ini"
        self.complaint: str | None = None
        self._ini: QSettings | _Memory = QSettings(str(self.path), QSettings.Format.IniFormat)
        if self._ini.status() != QSettings.Status.NoError:
            self.complaint = f"The settings in {self.path} could not be read; the defaults are used instead."
            aside = self.path.with_suffix(".ini.broken")
            try:
                os.replace(self.path, aside)
                self.complaint += f" The file is kept as {aside.name}."
            except OSError:
                pass
            self._ini = QSettings(str(self.path), QSettings.Format.IniFormat)

    @classmethod
    def of_nobody(cls) -> Settings:
        """The defaults, kept nowhere: what is drawn with them depends on no person."""
        settings = cls.__new__(cls)
        settings.path, settings.complaint, settings._ini = Path(), None, _Memory()
        return settings

    @property
    def theme(self) -> Literal["dark", "light"]:
        return "light" if self._text("theme") == "light" else "dark"

    @theme.setter
    def theme(self, value: Literal["dark", "light"]) -> None:
        self._ini.setValue("theme", value)

    @property
    def zoom(self) -> float:
        return self._number("zoom", 1.0, ZOOMS[0], ZOOMS[-1])

    @zoom.setter
    def zoom(self, value: float) -> None:
        self._ini.setValue("zoom", f"{value:g}")

    @property
    def speed(self) -> float:
        """Steps per second when playing."""
        return self._number("speed", 4.0, 0.25, 100_000.0)

    @speed.setter
    def speed(self, value: float) -> None:
        self._ini.setValue("speed", f"{value:g}")

    @property
    def motion(self) -> bool:
        return self._text("motion") != "false"

    @motion.setter
    def motion(self, value: bool) -> None:
        self._ini.setValue("motion", "true" if value else "false")

    @property
    def worker(self) -> str:
        """The command that starts the worker; empty for this Python's own."""
        return self._text("worker")

    @property
    def recent(self) -> list[Path]:
        """Session and tensor files, the last one first."""
        return [Path(line) for line in self._text("recent").split("\n") if line][:RECENT]

    def add_recent(self, path: Path) -> None:
        paths = [path, *(p for p in self.recent if p != path)]
        self._ini.setValue("recent", "\n".join(map(str, paths[:RECENT])))

    def drop_recent(self, path: Path) -> None:
        self._ini.setValue("recent", "\n".join(str(p) for p in self.recent if p != path))

    @property
    def session(self) -> Path | None:
        """The session file that was open last."""
        text = self._text("session")
        return Path(text) if text else None

    @session.setter
    def session(self, value: Path | None) -> None:
        self._ini.setValue("session", str(value or ""))

    @property
    def hidden_panels(self) -> frozenset[str]:
        """The panels that are not shown, by name."""
        return frozenset(filter(None, self._text("hidden").split(",")))

    @hidden_panels.setter
    def hidden_panels(self, names: frozenset[str]) -> None:
        self._ini.setValue("hidden", ",".join(sorted(names)))

    def bytes(self, name: str) -> QByteArray:
        """A geometry or a splitter's sizes, as Qt wrote it; empty when there is none."""
        try:
            value = self._ini.value(f"window/{name}")
        except Exception:
            return QByteArray()
        return value if isinstance(value, QByteArray) else QByteArray()

    def set_bytes(self, name: str, value: QByteArray) -> None:
        self._ini.setValue(f"window/{name}", value)

    def sync(self) -> None:
        """Writes the file now, where that can be done: the window closes in any case."""
        if isinstance(self._ini, QSettings):
            with contextlib.suppress(OSError):
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._ini.sync()

    def _text(self, name: str) -> str:
        try:
            value = self._ini.value(name, "")
        except Exception:
            return ""
        return value if isinstance(value, str) else ""

    def _number(self, name: str, default: float, low: float, high: float) -> float:
        try:
            value = float(self._text(name))
        except ValueError:
            return default
        return value if low <= value <= high else default


class _Memory:
    """As much of QSettings as is used here, without a file."""

    def __init__(self) -> None:
        self._values: dict[str, object] = {}

    def value(self, name: str, default: object = None) -> object:
        return self._values.get(name, default)

    def setValue(self, name: str, value: object) -> None:
        self._values[name] = value


def config_folder() -> Path:
    """The folder of the settings, after the platform's custom (XDG_CONFIG_HOME on Linux)."""
    return Path(QStandardPaths.writableLocation(QStandardPaths.StandardLocation.GenericConfigLocation)) / "flashscope"


def last_session() -> Path:
    """The file that holds the last State, written at exit and now and then."""
    data = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.GenericDataLocation)
    return Path(data) / "flashscope" / "last.flashscope.json"
