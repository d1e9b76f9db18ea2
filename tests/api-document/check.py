"""Checks openapi.json, and that the code which is generated from it has a named, usable type for each event and error.

Usage: check.py OPENAPI_JSON, in a folder with node_modules. Everything is written to the current folder.
"""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import TypeAdapter

METHODS = ("get", "put", "post", "delete")
# Numbers whose names state what they count, or come from the reference.
UNITLESS = {
    "count", "cursor", "duration", "entries", "partNumber", "threads", "changedFiles", "skippedFiles", "ttl", "offset", "executions", "exitCode", "from", "httpStatus", "connections", "openFiles", "pid",
    "processes", "queued", "restarts", "running", "sessions", "signal", "status", "to", "written", "lostSupervisors",
    "restoredSessions", "loggedFailures", "cols", "rows", "col", "row", "viewers", "code", "scrollbackLines", "outputCursor",
    "port", "interval", "statusMin", "statusMax", "statusCode", "size", "bytesRead", "bytesWritten", "uid", "gid", "links",
    "index", "replacements", "filesSearched", "matches", "column", "line", "textColumn", "contextLines", "maxMatches", "moveId",
    "unreadable", "limit", "maxRestarts", "retries", "threads", "depth", "percent", "added", "removed", "ahead", "behind",
}
UNITS = ("Ms", "Bytes", "Seconds", "Count")

source = Path(sys.argv[1])
document = json.loads(source.read_text())
schemas = document["components"]["schemas"]
problems = []


def check(holds, what):
    """Records a violated rule."""
    if not holds:
        problems.append(what)


def operations():
    """All operations: name and definition."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield f"{method.upper()} {path}", item[method]


def walk(value, at="#"):
    """All objects of the document, with their paths."""
    if isinstance(value, dict):
        yield at, value
        for key, inner in value.items():
            # The content of an example is not a schema.
            if key not in ("example", "examples"):
                yield from walk(inner, f"{at}/{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from walk(inner, f"{at}/{index}")


def fits(schema, example, where):
    """Validates an example against its schema."""
    # The document is the root, so that references can be resolved.
    validator = Draft202012Validator({**schema, "components": document["components"]})
    for error in validator.iter_errors(example):
        problems.append(f"{where}: the example does not fit: {error.message}")


def check_examples(name, operation):
    """Checks that every body of an operation has a valid example."""
    bodies = [("request", operation["requestBody"])] if "requestBody" in operation else []
    bodies += [(status, body) for status, body in operation["responses"].items() if status.startswith("2")]
    for what, body in bodies:
        for media in body.get("content", {}).values():
            given = [media["example"]] if "example" in media else []
            given += [example["value"] for example in media.get("examples", {}).values()]
            check(given, f"{name}: the {what} has no example")
            for example in given:
                fits(media["schema"], example, f"{name}, {what}")


def check_document():
    """Checks the rules of the document itself."""
    for error in OpenAPIV31SpecValidator(document).iter_errors():
        problems.append(f"not valid OpenAPI 3.1: {error.message}")
    check("/ws" in document["paths"], "/ws is missing")
    refused = {}
    for name, operation in operations():
        check_examples(name, operation)
        refused[name] = {status for status in operation["responses"] if status >= "400"}
        check(operation.get("summary") or operation.get("description"), f"{name} is not described")
        for status, response in operation["responses"].items():
            stream = response.get("content", {}).get("text/event-stream")
            check(stream is None or set(stream["schema"]) == {"$ref"}, f"{name}: the stream has no event type")
            if status >= "400":
                for _, schema in walk(response["content"]["application/json"]["schema"]):
                    check("$ref" not in schema or schema["$ref"].endswith("Error"), f"{name}: {status} is of no error type")
    check(len({frozenset(statuses) for statuses in refused.values()}) > 5, "operations list the same errors")
    for where, schema in walk(document):
        if "oneOf" in schema:
            names = [inner.get("$ref", inner) for inner in schema["oneOf"]]
            # `null` or a type needs no discriminator.
            if {"type": "null"} not in names:
                check("discriminator" in schema, f"{where}: a union without a discriminator")
        if isinstance(schema.get("enum"), list) and "description" in schema:
            for word in schema["enum"]:
                check(f"`{word}`" in schema["description"], f"{where}: {word} is not explained")
        for name, field in schema.get("properties", {}).items() if isinstance(schema.get("properties"), dict) else ():
            if {"integer", "number"} & set([field.get("type")] if isinstance(field.get("type"), str) else field.get("type") or []):
                check(name in UNITLESS or name.endswith(UNITS), f"{where}: {name} has no unit")


def unions():
    """The unions with the discriminator `type`: names, tags and variants."""
    for name, schema in schemas.items():
        if schema.get("discriminator", {}).get("propertyName") == "type":
            mapping = schema["discriminator"]["mapping"]
            yield name, {tag: ref.rsplit("/", 1)[1] for tag, ref in mapping.items()}


def errors():
    """The type of each error code."""
    for code in schemas["ErrorCode"]["enum"]:
        found = [name for name, schema in schemas.items()
                 if schema.get("properties", {}).get("code", {}).get("const") == code]
        check(len(found) == 1, f"{code} has {len(found)} types")
        for name in found:
            yield code, name


def check_types():
    """Checks that each variant is a named schema with its tag as a constant."""
    check({name for name, _ in unions()} >= {"ExecuteEvent", "ProcessEvent", "ServerEvent", "ServerFrame"}, "unions are missing")
    for union, variants in unions():
        for tag, name in variants.items():
            schema = schemas.get(name, {})
            check(schema.get("properties", {}).get("type", {}).get("const") == tag, f"{union}: {name} has no constant")
            check("type" in schema.get("required", []), f"{union}: the type of {name} is not required")


def typescript():
    """Code that compiles only if the generated types are as expected."""
    lines = [
        'import type { components, operations } from "./types";',
        'type S = components["schemas"];',
        "type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;",
        "function holds<_ extends true>(): void {}",
    ]
    for union, variants in unions():
        lines.append(f'export function of{union}(value: S["{union}"]): string {{')
        lines.append("  switch (value.type) {")
        for tag, name in variants.items():
            lines.append(f'    case "{tag}": {{ const own: S["{name}"] = value; return own.type; }}')
        lines.append("    default: { const none: never = value; return none; }\n  }\n}")
        for tag, name in variants.items():
            lines.append(f'holds<Same<S["{name}"]["type"], "{tag}">>();')
            lines.append(f'holds<Same<Extract<S["{union}"], {{ type: "{tag}" }}>, S["{name}"]>>();')
    for code, name in errors():
        lines.append(f'holds<Same<S["{name}"]["code"], "{code}">>();')
    for _, operation in operations():
        content = operation["responses"].get("200", {}).get("content", {})
        if "text/event-stream" in content:
            event = content["text/event-stream"]["schema"]["$ref"].rsplit("/", 1)[1]
            stream = f'operations["{operation["operationId"]}"]["responses"][200]["content"]["text/event-stream"]'
            lines.append(f'holds<Same<{stream}, S["{event}"]>>();')
    Path("uses.ts").write_text("\n".join(lines) + "\n")
    bin_folder = Path("node_modules/.bin")
    subprocess.run([bin_folder / "openapi-typescript", source, "--output", "types.ts"], check=True, stdout=subprocess.DEVNULL)
    options = ["--strict", "--noEmit", "--noUnusedLocals", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler"]
    compiled = subprocess.run([bin_folder / "tsc", *options, "types.ts", "uses.ts"], capture_output=True, text=True, check=False)
    check(compiled.returncode == 0, f"TypeScript does not compile:\n{compiled.stdout}")


def python():
    """Checks that the generated models can be imported, and parse the examples as the expected types."""
    subprocess.run(
        [Path(sys.executable).parent / "datamodel-codegen", "--input", source, "--input-file-type", "openapi",
         "--output", "models.py", "--output-model-type", "pydantic_v2.BaseModel", "--target-python-version", "3.11",
         "--formatters", "builtin"],
        check=True,
    )
    spec = importlib.util.spec_from_file_location("models", "models.py")
    models = importlib.util.module_from_spec(spec)
    sys.modules["models"] = models
    spec.loader.exec_module(models)
    tags = [(tag, name, "type") for _, variants in unions() for tag, name in variants.items()]
    tags += [(code, name, "code") for code, name in errors()]
    for tag, name, field in tags:
        model = getattr(models, name, None)
        check(model is not None, f"Python has no {name}")
        if model is not None:
            words = re.findall(r"'([^']+)'", str(model.model_fields[field].annotation))
            check(words == [tag], f"Python's {name} is not told apart by {tag}: {model.model_fields[field].annotation}")
    for name, operation in operations():
        media = operation["responses"].get("200", {}).get("content", {}).get("text/event-stream")
        if media:
            union = media["schema"]["$ref"].rsplit("/", 1)[1]
            variants = dict(unions())[union]
            for example in media["examples"].values():
                read = TypeAdapter(getattr(models, union)).validate_python(example["value"]).root
                expected = variants[example["value"]["type"]]
                check(type(read).__name__ == expected, f"{name}: read as {type(read).__name__}, not {expected}")


def report():
    """Exits if a rule was violated."""
    if problems:
        print("\n".join(problems))
        sys.exit(1)


check_document()
check_types()
# The generators are only run on a valid document.
report()
typescript()
python()
report()
print(f"{len(schemas)} types, {sum(1 for _ in operations())} operations")
