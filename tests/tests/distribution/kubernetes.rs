//! What runs a pod on masu whose image does not contain it: by hand, by Kustomize, by Helm.
//!
//! The schemas are those of `kubernetes-validate`; `tests/install-tools` installs it and `kustomize`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use masu_tests::{optional_tool, scratch, tool, workspace};
use serde_json::{Value, json};

use crate::{output, packages, succeed, text};

fn shipped(name: &str) -> std::path::PathBuf {
    workspace().join("packaging/kubernetes").join(name)
}

/// A YAML file, read by Python.
fn yaml(file: &Path) -> Value {
    let mut python = Command::new(tool("python3"));
    let code = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let said = succeed(python.args(["-c", code]).arg(file));
    serde_json::from_str(&said).expect("JSON")
}

/// What the schemas say about a file: they know every field there is, and no other.
fn validate(file: &Path) -> Option<Output> {
    let validate = optional_tool("kubernetes-validate", "the schemas of Kubernetes")?;
    Some(output(Command::new(validate).arg("--strict").arg(file)))
}

/// The schemas accept a file, but not the same file with a misspelt field.
#[track_caller]
fn is_valid(file: &Path, field: &str, misspelt: &str) {
    let Some(said) = validate(file) else { return };
    assert!(said.status.success(), "{}{}", text(&said.stdout), text(&said.stderr));
    let place = scratch();
    let wrong = place.path().join("wrong.yaml");
    let content = fs::read_to_string(file).expect("text");
    assert!(content.contains(field), "{} has no {field}", file.display());
    fs::write(&wrong, content.replace(field, misspelt)).expect("written");
    assert!(!validate(&wrong).expect("it is installed").status.success(), "{misspelt}");
}

/// A deployment in which the container `app` runs on masu, whatever else it contains.
#[track_caller]
fn is_on_masu(deployment: &Value) {
    let pod = &deployment["spec"]["template"]["spec"];
    let named = |list: &Value, name: &str| -> Value {
        let all = list.as_array().unwrap_or_else(|| panic!("no list in {pod}"));
        let found: Vec<_> = all.iter().filter(|one| one["name"] == name).collect();
        let [one] = found[..] else { panic!("{name} in {list}") };
        one.clone()
    };
    let (copy, app) = (named(&pod["initContainers"], "masu"), named(&pod["containers"], "app"));
    assert!(named(&pod["volumes"], "masu")["emptyDir"].is_object());
    assert_eq!(copy["volumeMounts"], json!([{"name": "masu", "mountPath": "/shared"}]));
    assert_eq!(copy["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    let mount = named(&app["volumeMounts"], "masu");
    let preload = named(&app["env"], "LD_PRELOAD");
    let inside = format!("{}/libmasu.so.0", mount["mountPath"].as_str().expect("a path"));
    assert_eq!(preload["value"], inside.as_str());
}

/// What the init container executes, with a directory in place of the volume: afterwards a program uses the library.
#[test]
fn the_copy_serves_a_program() {
    let Some(packages) = packages() else { return };
    let file = fs::read_to_string(shipped("copy.Dockerfile")).expect("a Dockerfile");
    let copied =
        file.lines().find_map(|line| line.strip_prefix("COPY --from=masu ")).expect("COPY");
    assert_eq!(copied, "/packages/libmasu.so.0 /masu/");
    let command = file.lines().find_map(|line| line.strip_prefix("CMD ")).expect("CMD");
    let words: Vec<String> = serde_json::from_str(command).expect("a list");
    let volume = scratch();
    let place = |word: &String| {
        word.replace("/masu/", &format!("{}/", packages.display()))
            .replace("/shared/", &format!("{}/", volume.path().display()))
    };
    let words: Vec<String> = words.iter().map(place).collect();
    succeed(Command::new(&words[0]).args(&words[1..]));
    let library = volume.path().join("libmasu.so.0");
    let mut program = Command::new(tool("cat"));
    let program = program.arg("/proc/self/maps").env("LD_PRELOAD", &library);
    let maps = String::from_utf8(program.output().expect("it runs").stdout).expect("text");
    assert!(maps.contains(library.to_str().expect("a path")), "{maps}");
}

#[test]
fn the_deployment_is_one() {
    let file = shipped("deployment.yaml");
    is_on_masu(&yaml(&file));
    let page = fs::read_to_string(workspace().join("docs/kubernetes.md")).expect("the page");
    for name in ["deployment.yaml", "copy.Dockerfile"] {
        let content = fs::read_to_string(shipped(name)).expect(name);
        assert!(
            page.contains(&format!("\n{content}```\n")),
            "the page does not show {name} as it is"
        );
    }
    is_valid(&file, "mountPath: /shared", "mountpath: /shared");
}

/// What runs `masu export`: one of a node, one beside a service.
#[test]
fn the_exporters_are_valid() {
    let place = workspace().join("packaging/observe/kubernetes");
    is_valid(&place.join("daemonset.yaml"), "hostPID", "hostPid");
    is_valid(&place.join("sidecar.yaml"), "shareProcessNamespace", "shareProcessNameSpace");
}

const SERVICE: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: service
  labels: {masu: preload}
spec:
  selector:
    matchLabels: {app: service}
  template:
    metadata:
      labels: {app: service}
    spec:
      initContainers:
        - {name: migrate, image: service:latest, command: [migrate]}
      containers:
        - name: app
          image: service:latest
          env: [{name: PORT, value: '80'}]
          volumeMounts: [{name: data, mountPath: /data}]
        - {name: proxy, image: proxy:latest}
      volumes:
        - {name: data, emptyDir: {}}
";

#[test]
fn the_component_adds_masu_and_keeps_the_rest() {
    if optional_tool("kustomize", "the component for Kustomize, which is only read").is_none() {
        assert_eq!(yaml(&shipped("kustomize/kustomization.yaml"))["kind"], "Component");
        return is_on_masu(&yaml(&shipped("kustomize/preload.yaml")));
    }
    let place = scratch();
    fs::write(place.path().join("service.yaml"), SERVICE).expect("written");
    let other = SERVICE.replace("name: service\n  labels: {masu: preload}", "name: other");
    fs::write(place.path().join("other.yaml"), other).expect("written");
    // A component is named by a path relative to the file that uses it.
    let component = place.path().join("masu");
    succeed(Command::new("cp").arg("-r").arg(shipped("kustomize")).arg(&component));
    fs::write(
        place.path().join("kustomization.yaml"),
        "resources: [service.yaml, other.yaml]\ncomponents: [masu]\n",
    )
    .expect("written");
    let said = succeed(Command::new("kustomize").arg("build").arg(place.path()));
    let parts: Vec<_> = said.split("---\n").collect();
    let (mut with, mut without) = (None, None);
    for (number, part) in parts.iter().enumerate() {
        let file = place.path().join(format!("built-{number}.yaml"));
        fs::write(&file, part).expect("written");
        let built = yaml(&file);
        if built["metadata"]["name"] == "service" {
            if let Some(said) = validate(&file) {
                assert!(said.status.success(), "{}{}", text(&said.stdout), text(&said.stderr));
            }
            with = Some(built);
        } else {
            without = Some(built);
        }
    }
    let (with, without) = (with.expect("the service"), without.expect("the other"));
    is_on_masu(&with);
    let pod = &with["spec"]["template"]["spec"];
    let app =
        pod["containers"].as_array().unwrap().iter().find(|one| one["name"] == "app").unwrap();
    assert!(
        app["env"].to_string().contains("PORT")
            && app["volumeMounts"].to_string().contains("/data")
    );
    assert_eq!(app["image"], "service:latest");
    assert_eq!(pod["initContainers"].as_array().map(Vec::len), Some(2));
    assert_eq!(pod["containers"].as_array().map(Vec::len), Some(2));
    assert!(!without.to_string().contains("libmasu"), "{without}");
}

/// The pieces contain what the deployment contains, and nothing once they are switched off.
#[test]
fn the_pieces_for_helm_are_the_deployments() {
    let pieces = fs::read_to_string(shipped("helm/_masu.tpl")).expect("the pieces");
    if optional_tool("helm", "the pieces for Helm, which are only compared").is_none() {
        let deployment = yaml(&shipped("deployment.yaml"));
        let pod = &deployment["spec"]["template"]["spec"];
        let place = scratch();
        for (name, expected) in [
            ("initContainer", &pod["initContainers"]),
            ("volumeMount", &pod["containers"][0]["volumeMounts"]),
            ("volume", &pod["volumes"]),
        ] {
            let piece =
                pieces.split(&format!("define \"masu.{name}\" -}}}}\n")).nth(1).expect(name);
            let lines = piece.lines().take_while(|line| !line.starts_with("{{- end"));
            let lines = lines.filter(|line| !line.starts_with("{{-"));
            let text: String = lines.map(|line| format!("{line}\n")).collect();
            let image =
                text.find("{{ dig").map(|at| text[at..].split("}}").next().unwrap().to_owned());
            let text = match image {
                Some(image) => text.replace(&format!("{image}}}}}"), "masu-copy:0.1.0"),
                None => text,
            };
            let file = place.path().join(name);
            fs::write(&file, text).expect("written");
            assert_eq!(&yaml(&file), expected, "{name}");
        }
        return;
    }
    let chart = scratch();
    let templates = chart.path().join("templates");
    fs::create_dir(&templates).expect("made");
    fs::write(chart.path().join("Chart.yaml"), "apiVersion: v2\nname: service\nversion: 1.0.0\n")
        .expect("written");
    fs::write(templates.join("_masu.tpl"), &pieces).expect("written");
    let head = pieces.split("      initContainers:").nth(1).expect("the head shows how");
    let pod = format!("      initContainers:{}", head.split("\n\nValues").next().unwrap());
    let (before, _) = SERVICE.split_once("      initContainers:").expect("a pod");
    fs::write(templates.join("service.yaml"), format!("{before}{pod}\n")).expect("written");
    let render = |set: &str| {
        let mut helm = Command::new("helm");
        succeed(helm.args(["template", "service"]).arg(chart.path()).args(["--set", set]))
    };
    let file = chart.path().join("built.yaml");
    fs::write(&file, render("masu.conf=decay:2s")).expect("written");
    is_on_masu(&yaml(&file));
    assert!(!render("masu.enabled=false").contains("libmasu"));
}
