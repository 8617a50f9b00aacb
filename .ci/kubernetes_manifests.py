"""The part of .ci/manifests.py on deploy/kubernetes: compares the output of kustomize with the schemas of
Kubernetes and of the Gateway API, and with the programs. Also checks properties that no schema expresses:
selectors match pods, ports and probes exist, no pod has privileges.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

# The oldest supported version: it has `sleep` before the end of a container.
KUBERNETES = "1.32.0"
FOLDER = Path("deploy/kubernetes")
# Methods of the route to command-api; query-api gets every other method.
WRITES = {"POST", "PATCH", "DELETE"}
POSTGRES_PORT, KAFKA_PORT = 5432, 9093
# The only workload with a token of the cluster, and the rights of its account.
WITH_TOKEN = "Job admin-key"
RIGHTS = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}]
# Images that run a program under another name than their own.
PROGRAMS = {"operator": "command-api"}
# Further processes of an image; their containers have their names. No autoscaler: one works, another one waits.
OTHER_PROCESSES = {"projector": ["webhooks"]}


def check_all(programs, check):
    built = subprocess.run(["kustomize", "build", FOLDER], capture_output=True, text=True)
    check(built.returncode == 0, f"kustomize: {built.stderr.strip()}")
    manifests = [it for it in yaml.safe_load_all(built.stdout) if it]
    listed = set(yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"])
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    check(files <= listed, f"kustomization.yaml: leaves out {sorted(files - listed)}")
    for manifest in manifests:
        check_schema(manifest, check)
    cluster = Cluster(manifests, programs, check)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["deploy/make-secrets", folder], check=True)
        made = {path.name for path in Path(folder).iterdir()}
    named = {file for keys in cluster.secrets.values() for file in keys.values()}
    check(named <= made, f"docs/containers.md: make-secrets makes no {sorted(named - made)}")
    for workload in cluster.workloads.values():
        cluster.check_workload(workload)
    cluster.check_services()
    cluster.check_routes()
    cluster.check_admin_api()
    cluster.check_rights()
    cluster.check_others()


def check_schema(manifest, check):
    where = name_of(manifest)
    try:
        if manifest["apiVersion"].startswith("gateway."):
            jsonschema.validate(manifest, gateway_schema(manifest))
        else:
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    except jsonschema.ValidationError as error:
        check(False, f"{where}: {'.'.join(map(str, error.path))}: {error.message}")
    except kubernetes_validate.ValidationError as error:
        check(False, f"{where}: {'.'.join(map(str, error.path))}: {error.message}")


def gateway_schema(manifest):
    kind = manifest["kind"].lower()
    definition = Path(os.environ["GATEWAY_API"], f"config/crd/standard/gateway.networking.k8s.io_{kind}s.yaml")
    versions = yaml.safe_load(definition.read_text())["spec"]["versions"]
    version = manifest["apiVersion"].split("/")[1]
    schema = next(it for it in versions if it["name"] == version)["schema"]["openAPIV3Schema"]
    # The definition has no schema for `metadata`.
    schema["properties"].pop("metadata")
    strict = closed(schema)
    strict["properties"]["metadata"] = {"type": "object"}
    return strict


def closed(schema):
    """Returns the schema without additional properties."""
    if isinstance(schema, list):
        return [closed(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        schema.setdefault("additionalProperties", False)
    return schema


def secrets_of_documents():
    """Returns the secrets that docs/containers.md creates: of each key, the file of make-secrets."""
    lines = re.findall(r"create secret generic (linkledger-\S+) (.*)", Path("docs/containers.md").read_text())
    return {name: dict(re.findall(r"--from-file=(\w+)=secrets/(\w+)", files)) for name, files in lines}


def template_of(workload):
    """Returns the template of the pods."""
    spec = workload["spec"]
    return spec.get("jobTemplate", {}).get("spec", spec)["template"]


def name_of(manifest):
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def selects(selector, labels):
    for expression in selector.get("matchExpressions", []):
        if expression["operator"] != "In" or labels.get(expression["key"]) not in expression["values"]:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


class Cluster:
    """All manifests together."""

    def __init__(self, manifests, programs, check):
        self.programs, self.check = programs, check
        self.by_kind, self.secrets = {}, secrets_of_documents()
        for manifest in manifests:
            self.by_kind.setdefault(manifest["kind"], {})[manifest["metadata"]["name"]] = manifest
        self.workloads = self.by_kind["Deployment"] | self.by_kind["Job"] | self.by_kind["CronJob"]
        # Of each egress policy to a port: the selector of its pods.
        self.egress = [(port["port"], policy["spec"]["podSelector"]) for policy in self.by_kind["NetworkPolicy"].values()
                       for rule in policy["spec"].get("egress", []) for port in rule["ports"]]

    def check_workload(self, workload):
        where = name_of(workload)
        template = template_of(workload)
        pod = template["spec"]
        self.check(pod.get("enableServiceLinks") is False, f"{where}: variables of other services are injected")
        self.check(pod.get("automountServiceAccountToken") is (where == WITH_TOKEN), f"{where}: has a token of the cluster, or lacks it")
        security = pod.get("securityContext", {})
        restricted = security.get("runAsNonRoot") and security.get("runAsUser", 0) > 0 and security.get("seccompProfile") == {"type": "RuntimeDefault"}
        self.check(restricted, f"{where}: the pod is not restricted")
        volumes = {volume["name"] for volume in pod["volumes"]}
        secret = next((volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume), None)
        for container in pod.get("initContainers", []) + pod["containers"]:
            self.check_container(where, container, volumes)
            self.check_secrets(where, container, secret)
        used = yaml.safe_dump(pod)
        for address, port in [("database_url", POSTGRES_PORT), ("kafka_password", KAFKA_PORT)]:
            reached = any(port == to and selects(selector, template["metadata"]["labels"]) for to, selector in self.egress)
            self.check(reached == (address in used), f"{where}: {'uses' if address in used else 'does not use'} {address}, and network policies say otherwise")
        if workload["kind"] == "Deployment":
            labels = template["metadata"]["labels"]
            self.check(selects(workload["spec"]["selector"], labels), f"{where}: does not select its own pods")
            if workload["metadata"]["name"] in self.programs.ports:
                self.check_deployment(where, workload["metadata"]["name"], template)

    def check_container(self, where, container, volumes):
        security = container.get("securityContext", {})
        restricted = security.get("allowPrivilegeEscalation") is False and security.get("readOnlyRootFilesystem") and security.get("capabilities") == {"drop": ["ALL"]}
        self.check(restricted, f"{where}: {container['name']} is not restricted")
        resources = container.get("resources", {})
        self.check({"cpu", "memory"} <= resources.get("requests", {}).keys() and "memory" in resources.get("limits", {}), f"{where}: {container['name']} has no resources")
        paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
        self.check(mounted <= volumes, f"{where}: no volume {sorted(mounted - volumes)}")
        environment = {it["name"]: it["value"] for it in container.get("env", [])}
        for source in container.get("envFrom", []):
            settings = self.by_kind["ConfigMap"].get(source["configMapRef"]["name"])
            self.check(settings, f"{where}: no settings {source['configMapRef']['name']}")
            environment = (settings or {"data": {}})["data"] | environment
        for name, value in environment.items():
            in_volume = any(value.startswith(f"{path}/") for path in paths)
            self.check(not name.endswith("_FILE") or in_volume, f"{where}: {name} is in no volume of {container['name']}")
        self.check_image(where, container, environment)

    def check_secrets(self, where, container, secret):
        """Checks that docs/containers.md creates the keys of the secret that a container reads."""
        read = set(re.findall(r"/run/secrets/linkledger/(\w+)", yaml.safe_dump(container)))
        created = self.secrets.get(secret, {})
        self.check(read <= created.keys(), f"{where}: docs/containers.md puts no {sorted(read - created.keys())} into {secret}")

    def check_image(self, where, container, environment):
        image, _, tag = container["image"].partition(":")
        if not image.startswith("linkledger/"):
            self.check(re.search(r"\d+\.\d+", tag), f"{where}: {image} is not pinned to a release")
            return
        name = image.removeprefix("linkledger/")
        if name not in self.programs.images:
            self.check(False, f"{where}: no image {image}")
            return
        service = container["name"] if container["name"] in OTHER_PROCESSES.get(name, []) else PROGRAMS.get(name, name)
        self.check(tag == self.programs.version, f"{where}: {image}:{tag} is not the release of Cargo.toml")
        known = set().union(*self.programs.defaults.values())
        for name in environment:
            # A shared config map has settings of all programs.
            is_setting = name in known or name.removesuffix("_FILE") in known
            self.check(is_setting, f"{where}: no program has a setting {name}")
        own = {it["name"]: it["value"] for it in container.get("env", [])}
        self.programs.check_environment(where, service, own)
        self.programs.check_admin_listen(where, service, environment.get("ADMIN_LISTEN"))
        if container["name"] == service:
            self.programs.check_required(where, service, environment)

    def check_deployment(self, where, service, template):
        pod = template["spec"]
        (container,) = pod["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        expected = self.programs.ports[service]
        admin = self.programs.admin_ports.get(service)
        self.check(ports.pop("admin", None) == admin, f"{where}: the port of the admin API is {admin}")
        self.check(sorted(ports.values()) == sorted(expected.values()), f"{where}: ports {ports}, the program has {expected}")
        internal = next(port for name, port in expected.items() if "INTERNAL" in name)
        self.check(ports.get("internal") == internal, f"{where}: the internal port is {internal}")
        for name in ["startupProbe", "livenessProbe", "readinessProbe"]:
            probe = container.get(name, {}).get("httpGet", {})
            right = probe.get("port") == "internal" and probe.get("path") in self.programs.probes
            self.check(right, f"{where}: {name} asks {probe}")
        scraped = template["metadata"]["annotations"]
        right = scraped["prometheus.io/port"] == str(internal) and scraped["prometheus.io/path"] in self.programs.probes
        self.check(right, f"{where}: metrics are not at {scraped}")
        pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        needed = pause + self.programs.drain_seconds
        self.check(pod["terminationGracePeriodSeconds"] > needed, f"{where}: is killed before its {needed} s are over")

    def pods(self, selector):
        return [it for it in self.workloads.values() if selects(selector, template_of(it)["metadata"]["labels"])]

    def check_services(self):
        for service in self.by_kind["Service"].values():
            pods = self.pods({"matchLabels": service["spec"]["selector"]})
            self.check(len(pods) == 1, f"{name_of(service)}: selects {list(map(name_of, pods))}")
            for pod in pods:
                ports = {it["name"]: it["containerPort"] for it in pod["spec"]["template"]["spec"]["containers"][0]["ports"]}
                for port in service["spec"]["ports"]:
                    right = ports.get(port["targetPort"]) == port["port"] and port["targetPort"] != "internal"
                    self.check(right, f"{name_of(service)}: {port} is not one of {ports}")

    def check_routes(self):
        methods = {}
        listeners = {it["name"] for it in self.by_kind["Gateway"]["linkledger"]["spec"]["listeners"]}
        for route in self.by_kind["HTTPRoute"].values():
            where = name_of(route)
            for parent in route["spec"]["parentRefs"]:
                self.check(parent["name"] in self.by_kind["Gateway"] and parent["sectionName"] in listeners, f"{where}: no gateway {parent}")
            for rule in route["spec"]["rules"]:
                for backend in rule["backendRefs"]:
                    service = self.by_kind["Service"].get(backend["name"], {"spec": {"ports": []}})
                    ports = [port["port"] for port in service["spec"]["ports"]]
                    self.check(backend["port"] in ports, f"{where}: {backend} is not one of {ports}")
                    methods.setdefault(backend["name"], set()).update(match.get("method") for match in rule["matches"])
                    self.check(backend["port"] not in self.programs.admin_ports.values(), f"{where}: leads to the admin API")
        self.check(methods == {"command-api": WRITES, "query-api": {None}}, f"routes: {methods}")
        settings = self.config_map("linkledger-settings")
        hosts = {f"https://{host}" for route in self.by_kind["HTTPRoute"].values() for host in route["spec"]["hostnames"]}
        self.check({settings["BASE_URL"], settings["SHORT_BASE_URL"]} == hosts, f"routes: hosts {hosts} are not those of the settings")

    def check_admin_api(self):
        """Checks names, addresses and network policies on the way of a request to the admin API."""
        settings, files = self.config_map("linkledger-settings"), self.config_map("linkledger-ingress")
        included = set(re.findall(r"^\s*include linkledger/(\S+);", "\n".join(files.values()), re.M))
        self.check(included <= files.keys(), f"linkledger-ingress: lacks {sorted(included - files.keys())}")
        self.check(settings["BASE_URL"] in files["addresses.conf"], "linkledger-ingress: has another BASE_URL than the settings")
        service, nginx = self.by_kind["Service"]["admin-api"], self.labels("admin-api")
        (port,) = [it["port"] for it in service["spec"]["ports"]]
        self.check(service["spec"]["type"] == "ClusterIP", "Service admin-api: is reachable from outside")
        self.check(files["admin_host.conf"] == f"listen {port};", f"linkledger-ingress: does not listen on {port}")
        host = f"admin-api.{service['metadata']['namespace']}.svc"
        self.check(host in settings["ADMIN_ALLOWED_HOSTS"].split(","), f"settings: the admin API refuses the host {host}")
        for caller in self.callers(nginx, "admin"):
            self.check({"namespaceSelector", "podSelector"} <= caller.keys() and all(caller.values()), f"network policies: {caller} may call the admin API without a label")
        upstreams = dict(re.findall(r"^    server ([\w-]+):(\d+)", files["addresses.conf"], re.M))
        for name, port in self.programs.admin_ports.items():
            self.check(upstreams.get(name) == str(port), f"linkledger-ingress: does not ask {name} on {port}")
            is_sent = any(to == port and selects(selector, nginx) for to, selector in self.egress)
            callers = self.callers(self.labels(name), "admin")
            is_only = len(callers) == 1 and "namespaceSelector" not in callers[0] and selects(callers[0]["podSelector"], nginx)
            self.check(is_sent and is_only, f"network policies: not admin-api alone may call the admin API of {name}")

    def check_rights(self):
        """Checks that the account of the job that issues the first admin key has the rights for that job only."""
        (role,), (binding,), (account,) = [self.by_kind[kind].values() for kind in ["Role", "RoleBinding", "ServiceAccount"]]
        self.check(role["rules"] == RIGHTS, f"{name_of(role)}: has other rights than {RIGHTS}")
        self.check([it["name"] for it in binding["subjects"]] == [account["metadata"]["name"]], f"{name_of(binding)}: is for others")
        self.check("ClusterRoleBinding" not in self.by_kind, "an account has rights in the whole cluster")

    def config_map(self, name):
        return next(it["data"] for full_name, it in self.by_kind["ConfigMap"].items() if full_name.startswith(f"{name}-"))

    def labels(self, workload):
        return template_of(self.workloads[workload])["metadata"]["labels"]

    def callers(self, labels, port):
        """Returns the peers that network policies let reach this port of pods with the labels."""
        policies = [it["spec"] for it in self.by_kind["NetworkPolicy"].values() if selects(it["spec"]["podSelector"], labels)]
        rules = [rule for spec in policies for rule in spec.get("ingress", []) if any(it["port"] == port for it in rule["ports"])]
        return [peer for rule in rules for peer in rule.get("from", [{}])]

    def check_others(self):
        for budget in self.by_kind["PodDisruptionBudget"].values():
            self.check(len(self.pods(budget["spec"]["selector"])) == 1, f"{name_of(budget)}: selects no deployment")
        scalers = self.by_kind["HorizontalPodAutoscaler"]
        scaled = {it["spec"]["scaleTargetRef"]["name"] for it in scalers.values()}
        unscaled = {process for processes in OTHER_PROCESSES.values() for process in processes}
        self.check(scaled == self.programs.ports.keys() - unscaled, f"autoscalers: of {scaled}")
        for scaler in scalers.values():
            for metric in scaler["spec"]["metrics"]:
                name = metric.get("pods", {}).get("metric", {}).get("name")
                self.check(name is None or name in self.programs.metrics, f"{name_of(scaler)}: no metric {name}")
        policies = self.by_kind["NetworkPolicy"].values()
        denied = [it for it in policies if it["spec"].get("podSelector") == {} and not {"ingress", "egress"} & it["spec"].keys() and set(it["spec"]["policyTypes"]) == {"Ingress", "Egress"}]
        self.check(len(denied) == 1, "network policies: nothing denies by default")
        for policy in policies:
            pods = self.pods(policy["spec"]["podSelector"])
            self.check(pods, f"{name_of(policy)}: selects no pod")
            named = {port["port"] for rule in policy["spec"].get("ingress", []) for port in rule["ports"]}
            for pod in pods if named else []:
                ports = {it["name"] for it in pod["spec"]["template"]["spec"]["containers"][0]["ports"]}
                self.check(named <= ports, f"{name_of(policy)}: {name_of(pod)} has no port {sorted(named - ports)}")
