"""A new deployment: keys and configurations of both clouds, an operator and the owners.

`create` writes one folder per party. Each folder is complete and holds that party's secrets only;
whoever runs it on one machine for others has seen all of them, so hand the folders over on safe
ways and delete them here, or let each party make its own with `make_key` and exchange the public
ones.
"""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from ppodc.errors import ConfigError, NotFoundError, OptionError
from ppodc.files import disk_errors, private_folder
from ppodc.members import Members
from ppodc.names import is_name
from ppodc.service.addresses import check_address, collide, one_host, port_of
from ppodc.service.admitted import admit, callers
from ppodc.service.config import (
    Caller,
    Cloud1Config,
    Cloud2Config,
    CloudConfig,
    CollectorConfig,
    OwnerConfig,
    Remote,
    load,
    load_cloud,
)
from ppodc.service.config_text import save
from ppodc.service.invitation import Answer, Invitation, join, read_file
from ppodc.transport.curve_keys import CurveKeys, load_public

if TYPE_CHECKING:  # Paillier needs gmpy2, which few installations have and few jobs use
    from ppodc.crypto.paillier import PublicKey, SecretKey
    from ppodc.crypto.split_paillier import KeyShare

    _Keys = tuple[PublicKey | KeyShare | None, SecretKey | KeyShare | None]

MAX_OWNERS = 10_000
_RESERVED = ("cloud1", "cloud2", "collector", "operator")
_CLOUDS = ("cloud1", "cloud2", "collector")
_KINDS = ("secret", "public")


@dataclass(frozen=True, slots=True)
class Party:
    """One party's folder; `secrets` must be seen by nobody else."""

    name: str
    folder: Path
    config: Path
    secrets: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Deployment:
    """All parties of a new deployment."""

    folder: Path
    parties: tuple[Party, ...]

    def party(self, name: str) -> Party:
        """The party of this name."""
        for party in self.parties:
            if party.name == name:
                return party
        raise NotFoundError(f"there is no party {name!r} in {self.folder}.")

    def describe(self) -> str:
        """Which files belong to whom, for people."""
        lines = []
        for party in self.parties:
            lines.append(f"{party.name}: give {party.folder} to {party.name} alone.")
            lines.append(f"    configuration  {party.config}")
            lines += [f"    secret         {path}" for path in party.secrets]
        return "\n".join(lines)


def create(
    folder: str | Path,
    owners: int | Sequence[str] = 2,
    *,
    cloud1_listen: str = "tcp://127.0.0.1:7401",
    cloud2_listen: str = "tcp://127.0.0.1:7402",
    cloud2_listen_control: str = "tcp://127.0.0.1:7403",
    cloud1_endpoint: str | None = None,
    cloud2_endpoint: str | None = None,
    cloud2_endpoint_control: str | None = None,
    key_bits: int = 2048,
    insecure_key_bits: int = 0,
    ray_address: str = "local",
    pairs: int = 1,
    suites: tuple[str, ...] = ("shares",),
    split_key: bool = False,
) -> Deployment:
    """Write a new deployment into an empty folder; nothing is left behind if that fails.

    A Paillier key is made only if `suites` names the paillier suite; with `split_key`, each cloud
    gets a share of it and the key is forgotten. An endpoint is where others reach a cloud; it is
    the address it listens on unless given.
    """
    names = owner_names(owners)
    remote1 = cloud1_endpoint or cloud1_listen
    remote2 = cloud2_endpoint or cloud2_listen
    control = cloud2_endpoint_control or cloud2_listen_control
    _check_listening(cloud1_listen, cloud2_listen, cloud2_listen_control)
    _check_reached(remote1, remote2, control)
    if collide(cloud2_listen, cloud2_listen_control):
        raise ConfigError("cloud 2 needs two ports: one for owners, one for cloud 1.")
    with _new_folder(Path(folder).resolve()) as home:
        keys: _Keys = (None, None)
        if "paillier" in suites:
            keys = _paillier_keys(key_bits, insecure_key_bits, split_key)
        builder = _Builder(home, names, remote1, remote2, control)
        parties = [
            builder.cloud1(cloud1_listen, keys[0], insecure_key_bits, ray_address, pairs),
            builder.cloud2(
                (cloud2_listen, cloud2_listen_control),
                keys[1],
                insecure_key_bits,
                ray_address,
                suites,
            ),
            *builder.callers(),
        ]
    return Deployment(home, tuple(parties))


def create_local(
    folder: str | Path,
    owners: int | Sequence[str] = 2,
    *,
    listen: str = "tcp://127.0.0.1:7401",
    endpoint: str | None = None,
) -> Deployment:
    """A deployment of a single server, which collects perturbed reports: no second cloud."""
    names = owner_names(owners)
    _check_listening(listen)
    _check_reached(endpoint or listen)
    with _new_folder(Path(folder).resolve()) as home:
        builder = _Builder(home, names, endpoint or listen)
        parties = [builder.collector(listen), *builder.callers()]
    return Deployment(home, tuple(parties))


def _check_listening(*addresses: str) -> None:
    for address in addresses:
        check_address("where a cloud listens", address)


def _check_reached(*addresses: str) -> None:
    """Refuse addresses at which others cannot tell the clouds apart, or reach them at all."""
    for address in addresses:
        check_address("where a cloud is reached", address)
        if not one_host(address):
            raise ConfigError(
                f"nobody can call {address}: name the host under which others reach this cloud "
                "as its endpoint."
            )
    fixed = [address for address in addresses if port_of(address)]
    if any(collide(a, b) for a, b in combinations(fixed, 2)):
        raise ConfigError(
            f"{', '.join(fixed)}: each needs a port of its own, cloud 1 one, cloud 2 two."
        )


@contextlib.contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """An empty folder to fill; nothing is left behind if that fails."""
    with disk_errors(folder):
        if folder.exists() and any(folder.iterdir()):
            raise OptionError(f"{folder} is not empty; name a new folder for the deployment.")
    existed = folder.exists()
    private_folder(folder)
    try:
        yield folder
    except BaseException:
        for child in folder.iterdir():
            shutil.rmtree(child)
        if not existed:
            folder.rmdir()
        raise


def members(folder: Path, least: int | None = None) -> Members:
    """The owners of a deployment in this folder, as a spec names them."""
    keys = {
        config.parent.name: load_public(config.parent / "keys" / f"{config.parent.name}.public")
        for config in sorted(folder.glob("*/owner.toml"))
    }
    if not keys:
        raise ConfigError(f"{folder} is no deployment of `ppodc init`: no owner's folder is in it.")
    return Members.of({name: key.decode("ascii") for name, key in keys.items()}, least)


def add_owner(folder: Path, name: str) -> tuple[Path, Answer]:
    """Add an owner to a deployment on this machine: its folder, and the answer all clouds admit.

    Nothing is admitted unless every cloud of the deployment takes the name. Again is harmless.
    """
    operator, home = folder / "operator" / "operator.toml", folder / name
    files = [file for file in (folder / at / f"{at}.toml" for at in _CLOUDS) if file.exists()]
    if not operator.exists() or not files:
        raise ConfigError(f"{folder} is no deployment of `ppodc init`: no cloud's folder is in it.")
    known = load(operator, OwnerConfig)
    if (home / "owner.toml").exists():
        answer = read_file(home / f"{name}.answer", Answer)
    else:
        clouds = [(file, load_cloud(file)) for file in files]
        taken = [peer for file, config in clouds for peer in callers(file, config).values()]
        if any(peer.name == name for peer in taken):
            raise OptionError(f"{name!r} is a party of this deployment already.")
        answer = join(Invitation(cloud1=known.cloud1, cloud2=known.cloud2), home, name)
    for file in files:
        admit(file, load_cloud(file), answer)
    return home, answer


def make_key(stem: Path, paillier_bits: int | None = None) -> list[tuple[Path, bool]]:
    """One party's key pair, and cloud 2's Paillier key beside it: the files, and which are secret.

    Files that are there are never overwritten; then nothing is made.
    """
    names = [stem.name, *(["paillier"] if paillier_bits is not None else [])]
    files = [
        (stem.with_name(f"{name}.{kind}"), kind == "secret") for name in names for kind in _KINDS
    ]
    for file, _ in files:
        if file.exists():
            raise OptionError(f"{file} is there already; move it away or choose another name.")
    paillier = None
    if paillier_bits is not None:
        from ppodc.crypto.paillier import generate
        from ppodc.crypto.paillier_keys import save_public, save_secret

        paillier = generate(paillier_bits)
    if not stem.parent.exists():
        private_folder(stem.parent)
    CurveKeys.generate().save(stem)
    if paillier is not None:
        save_secret(stem.with_name("paillier.secret"), paillier)
        save_public(stem.with_name("paillier.public"), paillier.public)
    return files


def split_key(files: tuple[Path, Path], bits: int) -> str:
    """Deal a new Paillier key: a share for each cloud into its file; the key is never stored.

    Its fingerprint is returned. Files that are there are never overwritten; then nothing is made.
    """
    for file in files:
        if file.exists():
            raise OptionError(f"{file} is there already; move it away or choose another name.")
    if files[0].resolve() == files[1].resolve():
        raise OptionError("the shares go to two files, since no party may have both.")
    from ppodc.crypto.paillier import generate
    from ppodc.crypto.paillier_keys import save_share
    from ppodc.crypto.split_paillier import split

    shares = split(generate(bits))
    for file, share in zip(files, shares, strict=True):
        if not file.parent.exists():
            private_folder(file.parent)
        save_share(file, share)
    return shares[0].public.fingerprint


def _paillier_keys(bits: int, insecure_bits: int, split_key: bool) -> "_Keys":
    """The keys of cloud 1 and of cloud 2."""
    from ppodc.crypto.paillier import generate, generate_insecure
    from ppodc.crypto.split_paillier import split

    secret = generate_insecure(insecure_bits) if insecure_bits else generate(bits)
    return split(secret) if split_key else (secret.public, secret)


def _save_key(
    folder: Path, key: "PublicKey | SecretKey | KeyShare | None"
) -> tuple[Path | None, Path | None]:
    """(file of the key, file of the share): the one that was written."""
    if key is None:
        return None, None
    from ppodc.crypto.paillier import PublicKey, SecretKey
    from ppodc.crypto.paillier_keys import save_public, save_secret, save_share

    if isinstance(key, PublicKey):
        save_public(file := folder / "paillier.public", key)
    elif isinstance(key, SecretKey):
        save_secret(file := folder / "paillier.secret", key)
    else:
        save_share(file := folder / "paillier.share", key)
        return None, file
    return file, None


def owner_names(owners: int | Sequence[str]) -> list[str]:
    """The names themselves: owner1, owner2, ... if only their number is given."""
    names = [f"owner{i}" for i in range(1, owners + 1)] if isinstance(owners, int) else list(owners)
    if not 1 <= len(names) <= MAX_OWNERS:
        raise OptionError(f"a deployment needs 1 to {MAX_OWNERS} owners.")
    for name in names:
        if not is_name(name) or name in _RESERVED:
            raise OptionError(
                f"{name!r} cannot be an owner's name: use letters, digits, '.', '_' and '-', and "
                f"none of {', '.join(_RESERVED)}."
            )
    if len(set(names)) != len(names):
        raise OptionError("two owners have the same name.")
    return names


class _Builder:
    """Makes all CURVE keys first, so that every party can name the others'."""

    def __init__(
        self,
        folder: Path,
        owners: list[str],
        remote1: str,
        remote2: str | None = None,
        control: str = "",
    ) -> None:
        self._folder = folder
        self._keys = {name: CurveKeys.generate() for name in (*_RESERVED, *owners)}
        self._owners = {name: self._public(name) for name in owners}
        self._operators = {"operator": self._public("operator")}
        first = "collector" if remote2 is None else "cloud1"
        self._remote1 = Remote(endpoint=remote1, public_key=self._public(first))
        self._remote2 = (
            Remote(endpoint=remote2, public_key=self._public("cloud2")) if remote2 else None
        )
        self._control = Remote(endpoint=control, public_key=self._public("cloud2"))

    def _public(self, name: str) -> str:
        return self._keys[name].public.decode("ascii")

    def cloud1(
        self,
        listen: str,
        key: "PublicKey | KeyShare | None",
        insecure_bits: int,
        ray_address: str,
        pairs: int,
    ) -> Party:
        home, stem = self._home("cloud1")
        public, share = _save_key(home / "keys", key)
        config = Cloud1Config(
            listen=listen,
            key=stem,
            store=home / "store",
            pools=home / "pools",
            ray_address=ray_address,
            insecure_key_bits=insecure_bits,
            pairs=pairs,
            paillier_public=public,
            paillier_share=share,
            cloud2=self._control,
            operators=self._operators,
            owners=self._owners,
        )
        return self._write(
            "cloud1", home / "cloud1.toml", config, () if share is None else (share,)
        )

    def cloud2(
        self,
        listen: tuple[str, str],
        key: "SecretKey | KeyShare | None",
        insecure_bits: int,
        ray_address: str,
        suites: tuple[str, ...],
    ) -> Party:
        home, stem = self._home("cloud2")
        secret, share = _save_key(home / "keys", key)
        config = Cloud2Config(
            listen=listen[0],
            listen_control=listen[1],
            key=stem,
            store=home / "store",
            pools=home / "pools",
            ray_address=ray_address,
            insecure_key_bits=insecure_bits,
            suites=suites,
            paillier_secret=secret,
            paillier_share=share,
            cloud1=Caller(public_key=self._public("cloud1")),
            operators=self._operators,
            owners=self._owners,
        )
        own = tuple(path for path in (secret, share) if path is not None)
        return self._write("cloud2", home / "cloud2.toml", config, own)

    def collector(self, listen: str) -> Party:
        home, stem = self._home("collector")
        config = CollectorConfig(
            listen=listen,
            key=stem,
            store=home / "store",
            operators=self._operators,
            owners=self._owners,
        )
        return self._write("collector", home / "collector.toml", config, ())

    def callers(self) -> list[Party]:
        """The operator and the owners."""
        return [
            self.caller("operator", "operator"),
            *(self.caller(name, "owner") for name in self._owners),
        ]

    def caller(self, name: str, role: str) -> Party:
        home, stem = self._home(name)
        config = OwnerConfig(
            role="operator" if role == "operator" else "owner",
            name=name,
            key=stem,
            uploads=home / "uploads",
            privacy=home / "privacy",
            cloud1=self._remote1,
            cloud2=self._remote2,
        )
        return self._write(name, home / f"{role}.toml", config, ())

    def _home(self, name: str) -> tuple[Path, Path]:
        """The party's folder, and the stem of its key files, which are written."""
        home = private_folder(self._folder / name)
        stem = private_folder(home / "keys") / name
        self._keys[name].save(stem)
        return home, stem

    def _write(
        self, name: str, path: Path, config: CloudConfig | OwnerConfig, secrets: tuple[Path, ...]
    ) -> Party:
        save(path, config)
        own = path.parent / "keys" / f"{name}.secret"
        return Party(name, path.parent, path, (own, *secrets))
