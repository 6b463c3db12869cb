#!/usr/bin/env bash
# Builds Kubernetes' own programs once, of the version in go.mod beside this file, into a folder outside the tree:
# ${XDG_CACHE_HOME:-~/.cache}/plimsoll/kubernetes-VERSION. Prints that folder. Takes some ten minutes on two cores the first
# time, nothing after that.
#   scripts/cluster/build.sh
set -euo pipefail
cd "$(dirname "$0")"
version=$(sed -n 's#^[[:space:]]*k8s.io/kubernetes \(v[0-9.]*\).*#\1#p' go.mod)
if [ -z "$version" ]; then
    echo "scripts/cluster/go.mod: expected a line 'k8s.io/kubernetes vX.Y.Z', found none" >&2
    exit 1
fi
folder="${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/kubernetes-$version"
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl)
missing=()
for program in "${programs[@]}"; do
    [ -x "$folder/$program" ] || missing+=("k8s.io/kubernetes/cmd/$program")
done
for program in pause dns; do
    [ -x "$folder/$program" ] || missing+=("./$program")
done
if [ ${#missing[@]} -gt 0 ]; then
    go=$(command -v go || echo /usr/local/go/bin/go)
    if ! [ -x "$go" ]; then
        echo "building Kubernetes needs Go, at least that of scripts/cluster/go.mod: install it and put it in PATH" >&2
        exit 1
    fi
    echo "building ${missing[*]} $version into $folder" >&2
    mkdir -p "$folder"
    # Built beside and moved when whole, so that what was interrupted is not taken for finished.
    work=$(mktemp -d "$folder/.build-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    minor=${version#v1.}
    minor=${minor%%.*}
    flags="-s -w"
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
    done
    CGO_ENABLED=0 nice -n 10 "$go" build -p 2 -trimpath -buildvcs=false -ldflags "$flags" -o "$work/" "${missing[@]}" >&2
    mv "$work"/* "$folder/"
fi
echo "$folder"
