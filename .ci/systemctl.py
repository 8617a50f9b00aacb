"""Replaces systemctl without a running systemd, for .ci/deploy: starts the ExecStart of a unit as its User, with
its variables, folders and credentials, and with the drop-ins of the administrator. Sandboxing (ProtectSystem and the
like) is left out.
"""

import os
import pwd
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

FOLDERS = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"]
RUN = Path("/run/systemctl")
# Services with units of Debian.
OF_DEBIAN = {
    "postgresql": {"restart": ["sh", "-c", "pg_ctlcluster $(pg_lsclusters -h | awk 'END {print $1, $2}') restart"]},
    "nginx": {"restart": ["sh", "-c", "nginx -t && { nginx -s quit || true; } && nginx"], "reload": ["nginx", "-s", "reload"]},
}
STOP_SECONDS = 30


def unit_of(name):
    name = name.removesuffix(".service")
    path = next((path for folder in FOLDERS if (path := Path(folder, f"{name}.service")).exists()), None)
    if path is None:
        sys.exit(f"Unit {name}.service not found.")
    settings = {}
    for file in [path, *sorted(Path(FOLDERS[0], f"{name}.service.d").glob("*.conf"))]:
        text = re.sub(r"\\\n\s*", " ", file.read_text())
        service = text.split("[Service]")[1].split("\n[")[0]
        for key, value in re.findall(r"^(\w+)=(.*)$", service, re.M):
            settings.setdefault(key, []).append(value.strip())
    return name, settings


def environment_of(settings, user, name):
    environment = {"PATH": os.environ["PATH"], "HOME": user.pw_dir, "USER": user.pw_name}
    for line in settings.get("Environment", []):
        environment.update(it.split("=", 1) for it in shlex.split(line))
    for file in settings.get("EnvironmentFile", []):
        path = Path(file.removeprefix("-"))
        if path.exists() or not file.startswith("-"):
            environment.update(it.split("=", 1) for it in shlex.split(path.read_text(), comments=True))
    credentials = Path("/run/credentials", f"{name}.service")
    for line in settings.get("LoadCredential", []):
        credential, source = line.split(":", 1)
        credentials.mkdir(parents=True, exist_ok=True)
        copy = credentials / credential
        copy.write_bytes(Path(source).read_bytes())
        for path in [credentials, copy]:
            os.chown(path, user.pw_uid, user.pw_gid)
            path.chmod(0o500 if path.is_dir() else 0o400)
        environment["CREDENTIALS_DIRECTORY"] = str(credentials)
    return {key: value.replace("%d", str(credentials)) for key, value in environment.items()}


def start(name):
    name, settings = unit_of(name)
    if settings.get("DynamicUser") == ["yes"] or settings.get("DynamicUser") == ["true"]:
        settings.setdefault("User", ["nobody"])
    user = pwd.getpwnam(settings.get("User", ["root"])[0])
    for folder in settings.get("StateDirectory", []):
        path = Path("/var/lib", folder)
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, user.pw_uid, user.pw_gid)
    environment = environment_of(settings, user, name)
    RUN.mkdir(exist_ok=True)
    for line in settings.get("ExecStartPre", []) + settings["ExecStart"]:
        is_last = line == settings["ExecStart"][-1]
        command = shlex.split(re.sub(r"\$\{?(\w+)\}?", lambda it: environment.get(it[1], ""), line.replace("%d", environment.get("CREDENTIALS_DIRECTORY", ""))))
        with open(RUN / f"{name}.log", "ab") as log:
            process = subprocess.Popen(command, env=environment, user=user.pw_uid, group=user.pw_gid, extra_groups=[], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/")
        if not is_last and process.wait():
            sys.exit(f"{name}: {line} has failed")
    (RUN / name).write_text(str(process.pid))


def pid_of(name):
    file = RUN / name.removesuffix(".service")
    pid = int(file.read_text()) if file.exists() else None
    # A zombie process counts as ended.
    is_alive = pid and Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return pid if is_alive else None


def stop(name):
    if pid := pid_of(name):
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + STOP_SECONDS
        while pid_of(name):
            if time.monotonic() > until:
                sys.exit(f"{name}: still runs after {STOP_SECONDS} s")
            time.sleep(0.05)


def main(arguments):
    verb, *names = [it for it in arguments if not it.startswith("--")]
    for name in names:
        if name in OF_DEBIAN:
            verb_of_debian = verb if verb in OF_DEBIAN[name] else "restart"
            subprocess.run(OF_DEBIAN[name][verb_of_debian], check=True)
        elif verb in {"start", "enable"}:
            if verb == "start" or "--now" in arguments:
                start(name)
        elif verb == "restart":
            stop(name)
            start(name)
        elif verb == "stop":
            stop(name)
        elif verb == "reload":
            os.kill(pid_of(name), signal.SIGHUP)
        elif verb == "is-active":
            sys.exit(0 if pid_of(name) else 3)
        else:
            sys.exit(f"systemctl.py does not know the verb {verb}")


main(sys.argv[1:])
