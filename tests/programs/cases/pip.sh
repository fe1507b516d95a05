# A handmade wheel and a source archive: installed into a virtual environment and removed.
packages='python3 python3-venv'
needs='/usr/bin/python3 /usr/lib/python3*/ensurepip/__main__.py'
maps=python3
limit=240

prepare() {
    cat >wheel.py <<'PY'
import zipfile
for n in range(1, 9):
    name = f"made_up{n}"
    with zipfile.ZipFile(f"{name}-1.{n}-py3-none-any.whl", "w") as wheel:
        info = f"{name}-1.{n}.dist-info"
        needs = f"Requires-Dist: made-up{n + 1}>=1.0\n" if n < 8 else ""
        wheel.writestr(f"{name}/__init__.py", f"value = {n}\n" + "".join(f"x{i} = '{i}' * {n}\n" for i in range(2000)))
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: made-up{n}\nVersion: 1.{n}\n{needs}")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
PY
    /usr/bin/python3 wheel.py
}

measure() {
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INDEX=1 PIP_FIND_LINKS=$shared
    /usr/bin/python3 -m venv venv
    local pip=venv/bin/pip
    $pip install -q made-up1
    $pip list --format=freeze | grep made
    $pip check
    venv/bin/python -c 'import made_up1, made_up8; print(made_up1.value + made_up8.value, len(dir(made_up1)))'
    $pip uninstall -q -y made-up3
    $pip check || echo "exit $?"
    $pip install -q no-such-thing 2>/dev/null || echo "exit $?"
    rm -rf venv
}
