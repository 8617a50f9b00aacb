"""Compares the Dockerfile, deploy/compose.yaml, deploy/kubernetes and deploy/systemd with each other and with
docs/configuration.md and docs/metrics.md, which tests compare with the programs.
Prints every fault, and ends with 1 if there is a fault.

usage: manifests.py, from the root of the repository, by .ci/manifests
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent))
import kubernetes_manifests  # noqa: E402

SERVICES = {"command-api": "serve", "projector": "run", "query-api": "serve", "webhooks": "webhooks"}
# Services whose program, and so whose image, has another name.
PROGRAMS = {"webhooks": "projector"}
# Further subcommands that the manifests run.
COMMANDS = {*SERVICES.values(), "migrate", "topic", "--help"}
COMPOSE = Path("deploy/compose.yaml")
# Ports of the listeners of the admin API in all files: ADMIN_LISTEN has no default, and no value for all on one host.
ADMIN_PORTS = {"command-api": 8086, "query-api": 8087, "projector": 8088}

faults = []


def check(holds, fault):
    if not holds:
        faults.append(fault)


def program_of(service):
    return PROGRAMS.get(service, service)


class Programs:
    """Settings of the programs, and the default ports of their listeners."""

    def __init__(self):
        reference = Path("docs/configuration.md").read_text()
        self.defaults = {service: {} for service in SERVICES}
        for programs, items in re.findall(r"<!-- settings of (.*?) -->(.*?)<!-- end -->", reference, re.S):
            settings = dict(re.findall(r"^- `--[\w-]+`, `(\w+)`(?: \((.*?)\))?: ", items, re.M))
            for service in SERVICES.keys() & set(programs.split(", ")):
                self.defaults[service] |= settings
        metrics = Path("docs/metrics.md").read_text()
        self.probes = set(re.findall(r"^\| `(/\w+)` \|", metrics, re.M)) | {"/metrics"}
        self.metrics = set(re.findall(r"^- `(linkledger_\w+)` ", metrics, re.M))
        drain_time = re.search(r"DRAIN_TIME_MAX: Duration = Duration::from_secs\((\d+)\)", Path("core/service/src/lifecycle/tasks.rs").read_text())
        self.drain_seconds = int(drain_time[1])
        self.version = re.search(r'^version = "(.*)"', Path("Cargo.toml").read_text(), re.M)[1]
        self.ports = {service: self._ports(service) for service in SERVICES}
        self.admin_ports = ADMIN_PORTS
        stages = re.findall(r"^FROM \S+ AS (\S+)$", Path("Dockerfile").read_text(), re.M)
        self.images = set(stages) - {"build", "runtime"}

    def ports_of_program(self, program):
        """Returns the ports of all services of a program, which share its image."""
        services = [service for service in SERVICES if program_of(service) == program]
        return {name: port for service in services for name, port in self.ports[service].items()}

    def _ports(self, service):
        listens = {name: value for name, value in self.defaults[service].items() if name.endswith("_LISTEN") and value}
        return {name: int(value.strip(" `").rsplit(":", 1)[1]) for name, value in listens.items()}

    def listens_on(self, service, port):
        return port in self.ports.get(service, {}).values() or port == self.admin_ports.get(service)

    def takes(self, service, variable):
        """Returns true if the service has the setting, as a variable or as a file with the value."""
        known = self.defaults[service]
        return variable in known or variable.removesuffix("_FILE") in known

    def check_required(self, where, service, names):
        for name, default in self.defaults[service].items():
            given = name in names or f"{name}_FILE" in names
            check(given or default != "required", f"{where}: {service} needs {name}")

    def check_environment(self, where, service, names):
        for name in names:
            check(self.takes(service, name), f"{where}: {service} has no setting {name}")
        doubled = [name for name in names if f"{name}_FILE" in names]
        check(not doubled, f"{where}: {doubled} given both as a variable and as a file")

    def check_admin_listen(self, where, service, value):
        port = self.admin_ports.get(service)
        check(value is None or value.endswith(f":{port}"), f"{where}: ADMIN_LISTEN is {value}, not port {port}")


def targets_of_dockerfile(programs):
    """Checks the last part of each target of the Dockerfile: ports, program and health check."""
    text = re.sub(r"\\\n\s*", " ", Path("Dockerfile").read_text())
    targets = dict(re.findall(r"^FROM runtime AS (\S+)\n(.*?)(?=^FROM|\Z)", text, re.M | re.S))
    check(set(targets) == set(map(program_of, SERVICES)), f"Dockerfile: targets {sorted(targets)} are not the programs")
    for service, lines in targets.items():
        ports = programs.ports_of_program(service)
        expected = {f"{name}=0.0.0.0:{port}" for name, port in ports.items()}
        environment = set(re.findall(r"\w+_LISTEN=\S+", lines))
        check(environment == expected, f"Dockerfile, {service}: listens on {environment}, not on {expected}")
        exposed = set(map(int, re.search(r"^EXPOSE (.*)$", lines, re.M)[1].split()))
        check(exposed == set(ports.values()), f"Dockerfile, {service}: exposes {exposed}")
        program = f"/usr/local/bin/{service}"
        for line in [f"COPY --from=build /out/{service} {program}", f'ENTRYPOINT ["{program}"]', f'CMD ["{SERVICES.get(service)}"]', f'CMD ["{program}", "health"]']:
            check(line in lines, f"Dockerfile, {service}: lacks {line}")
    check(re.search(r"^USER [1-9]\d*:[1-9]\d*$", text, re.M), "Dockerfile: USER must be a number other than 0")


def interpolated(text, example):
    """Replaces variables as compose does, with `.env.example` in place of `.env`."""
    used = set()

    def value(match):
        name, default = match[1], match[2] or ""
        used.add(name)
        check(name in example or default.startswith(":-"), f"compose.yaml: {name} is not in .env.example")
        return example.get(name, default.removeprefix(":-"))

    text = re.sub(r"(?<!\$)\$\{(\w+)(:[-?][^}]*)?\}", value, text)
    check(not example.keys() - used, f".env.example: nothing uses {sorted(example.keys() - used)}")
    return text


def check_compose(programs):
    example = Path("deploy/.env.example").read_text()
    example = dict(re.findall(r"^(\w+)=(.*)$", example, re.M))
    check(example.get("VERSION") == programs.version, ".env.example: VERSION is not that of Cargo.toml")
    with tempfile.NamedTemporaryFile("w", dir="deploy", suffix=".yaml") as file, tempfile.TemporaryDirectory() as secrets:
        example |= {"SECRETS": secrets, "TLS": secrets}
        file.write(interpolated(COMPOSE.read_text(), example))
        file.flush()
        loaded = subprocess.run(["compose-project", Path(file.name).name], cwd="deploy", capture_output=True, text=True)
        check(loaded.returncode == 0, f"compose.yaml: {loaded.stderr.strip()}")
        if loaded.returncode:
            return
        subprocess.run(["deploy/make-secrets", secrets], check=True)
        project = yaml.safe_load(loaded.stdout)
        for name, secret in project["secrets"].items():
            check(Path(secret["file"]).is_file(), f"compose.yaml: make-secrets makes no {name}")
        for name, service in project["services"].items():
            check_compose_service(programs, name, service, project["services"])


def check_compose_service(programs, name, service, services):
    where = f"compose.yaml, {name}"
    image = service["image"]
    ours = re.fullmatch(r"linkledger/([\w-]+):(.*)", image)
    environment = service.get("environment") or {}
    if ours:
        check(ours[1] in SERVICES and ours[2] == programs.version, f"{where}: no image {image}")
        check(service["build"]["target"] == ours[1], f"{where}: the target is not {ours[1]}")
        command = service.get("command") or [SERVICES[ours[1]]]
        check(command[0] in COMMANDS, f"{where}: no subcommand {command[0]}")
        process = name if program_of(name) == ours[1] else ours[1]
        programs.check_environment(where, process, environment)
        programs.check_admin_listen(where, process, environment.get("ADMIN_LISTEN"))
        if command[0] == SERVICES[process]:
            programs.check_required(where, process, environment)
        rightless = service.get("read_only") and service.get("cap_drop") == ["ALL"] and not service["user"].startswith("0")
        check(rightless, f"{where}: must be read-only, without capabilities, and not root")
    else:
        check(re.search(r":v?\d+\.\d+", image), f"{where}: {image} is not pinned to a release")
    check("no-new-privileges:true" in service.get("security_opt", []), f"{where}: may gain privileges")
    check(service.get("restart"), f"{where}: no restart policy")
    check(service.get("mem_limit"), f"{where}: no memory limit")
    granted = {f"/run/secrets/{it['source']}" for it in service.get("secrets", [])}
    named = set(re.findall(r"/run/secrets/\w+", yaml.safe_dump([environment, service.get("command"), service.get("entrypoint")])))
    check(named <= granted, f"{where}: has no secret {sorted(named - granted)}")
    for volume in service.get("volumes", []):
        check(volume["type"] != "bind" or Path(volume["source"]).exists(), f"{where}: {volume['source']} does not exist")
    for port in service.get("ports", []):
        is_public = name == "nginx" and port["target"] in {80, 443}
        check(is_public or port.get("host_ip") == "127.0.0.1", f"{where}: publishes {port['published']}")
    for other, dependency in (service.get("depends_on") or {}).items():
        probed = services[other].get("healthcheck") or services[other]["image"].startswith("linkledger/")
        check(dependency["condition"] != "service_healthy" or probed, f"{where}: {other} has no health check")
    check_addresses(programs, where, service, services)


def check_addresses(programs, where, service, services):
    """Checks every `NAME:PORT` of a service of linkledger."""
    text = yaml.safe_dump(service)
    for name in SERVICES:
        for port in re.findall(rf"(?<![\w/.-]){name}:(\d+)", text):
            check(programs.listens_on(name, int(port)), f"{where}: {name} does not listen on {port}")


def check_ingress(programs):
    """Checks that nginx in compose.yaml has the same upstreams as deploy/ingress, with other addresses, and that the
    admin API of deploy/ingress listens on loopback only."""
    lists = [Path("deploy/ingress/linkledger/addresses.conf"), Path("deploy/compose/addresses.conf")]
    here, compose = [re.findall(r"^upstream (\w+) |^    server \S+:(\d+)", path.read_text(), re.M) for path in lists]
    check(here == compose, f"{lists[1]}: other upstreams than {lists[0]}")
    for name, port in re.findall(r"^    server ([\w.-]+):(\d+)", lists[1].read_text(), re.M):
        check(programs.listens_on(name, int(port)), f"{lists[1]}: {name} does not listen on {port}")
    host = Path("deploy/ingress/linkledger/admin_host.conf")
    listens = re.findall(r"^\s*listen (.*);", host.read_text(), re.M)
    check(listens == ["127.0.0.1:8085"], f"{host}: listens on {listens}")


def check_units(programs):
    """Checks the systemd units: settings, and credentials that `make-secrets` makes."""
    folder = Path("deploy/systemd")
    shared = dict(re.findall(r"^(\w+)=(.*)$", (folder / "environment").read_text(), re.M))
    ports = {name: port for known in programs.ports.values() for name, port in known.items()}
    check("ADMIN_LISTEN" not in shared, f"{folder}/environment: all services of a host would take ADMIN_LISTEN")
    for name, value in shared.items():
        check(any(programs.takes(service, name) for service in SERVICES), f"{folder}/environment: no program has a setting {name}")
        right = name not in ports or value.endswith(f":{ports[name]}")
        check(right, f"{folder}/environment: {name} is not {ports.get(name)}")
    with tempfile.TemporaryDirectory() as secrets:
        subprocess.run(["deploy/make-secrets", secrets], check=True)
        made = {path.name for path in Path(secrets).iterdir()}
    for service, command in SERVICES.items():
        where = f"linkledger-{service}.service"
        unit = (folder / where).read_text()
        start = f"{program_of(service)} {command}"
        check(f"ExecStart=/usr/bin/{start}\n" in unit, f"{where}: does not start {start}")
        own = dict(re.findall(r"^Environment=(\w+)=(.*)$", unit, re.M))
        admin = re.findall(r"^#Environment=ADMIN_LISTEN=127\.0\.0\.1:(\d+)$", unit, re.M)
        port = programs.admin_ports.get(service)
        check(admin == [str(port)] * bool(port), f"{where}: the commented-out ADMIN_LISTEN is not port {port}")
        programs.check_environment(where, service, own)
        programs.check_required(where, service, shared | own)
        loaded = dict(re.findall(r"^LoadCredential=(\w+):\S+/(\w+)$", unit, re.M))
        check(set(loaded.values()) <= made, f"{where}: make-secrets makes no {sorted(set(loaded.values()) - made)}")
        named = {value.removeprefix("%d/") for value in own.values() if value.startswith("%d/")}
        check(named == loaded.keys(), f"{where}: loads {sorted(loaded)} and names {sorted(named)}")


def check_scraping(programs):
    """Checks that the job names are those that the alerts use."""
    jobs = yaml.safe_load(Path("deploy/observability/prometheus.yml").read_text())["scrape_configs"]
    jobs = {job["job_name"] for job in jobs}
    scraped = yaml.safe_load(Path("deploy/compose/prometheus.yml").read_text())["scrape_configs"]
    check({job["job_name"] for job in scraped} == jobs, "compose/prometheus.yml: other jobs than deploy/observability")
    for job in scraped:
        internal = next(port for name, port in programs.ports[job["job_name"]].items() if "INTERNAL" in name)
        for target in job["dns_sd_configs"]:
            expected = ([job["job_name"]], internal)
            check((target["names"], target["port"]) == expected, f"compose/prometheus.yml: {job['job_name']} is at {expected}")


def main():
    programs = Programs()
    targets_of_dockerfile(programs)
    check_compose(programs)
    check_ingress(programs)
    check_scraping(programs)
    check_units(programs)
    kubernetes_manifests.check_all(programs, check)
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
