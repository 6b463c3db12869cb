#!/usr/bin/env bash
# Packs folders into a container image, an OCI image layout in one tar file, with nothing but tar, gzip and sha256sum. The same
# folders give the same bytes: names are sorted, times are SOURCE_DATE_EPOCH (default 0), owners are root. A folder per architecture
# makes an index of several.
#   scripts/oci.sh OUT.tar NAME:TAG USER ENTRYPOINT ARCH=FOLDER [ARCH=FOLDER …]
# ENTRYPOINT is one word. `ctr images import`, `podman load`, `skopeo copy oci-archive:…` read the result.
set -euo pipefail
if [ $# -lt 5 ]; then
    echo "usage: $0 OUT.tar NAME:TAG USER ENTRYPOINT ARCH=FOLDER [ARCH=FOLDER …]" >&2
    exit 2
fi
out=$1 name=$2 user=$3 entrypoint=$4
shift 4
epoch=${SOURCE_DATE_EPOCH:-0}
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
blobs=$work/layout/blobs/sha256
mkdir -p "$blobs"

pack() { # FOLDER: its files as tar on stdout
    tar --create --directory "$1" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
        --format=gnu --mode=u+rw,go+r,go-w .
}
digest() { sha256sum "$1" | cut -d ' ' -f 1; }
keep() { # FILE: becomes a blob; prints its digest and size
    local of
    of=$(digest "$1")
    local size
    size=$(stat -c %s "$1")
    mv "$1" "$blobs/$of"
    echo "$of $size"
}

manifests=
for one in "$@"; do
    arch=${one%%=*} folder=${one#*=}
    if [ "$arch" = "$one" ] || ! [ -d "$folder" ]; then
        echo "expected ARCH=FOLDER such as amd64=target/image/amd64, got '$one'" >&2
        exit 2
    fi
    pack "$folder" >"$work/layer.tar"
    plain=$(digest "$work/layer.tar")
    gzip -n -9 "$work/layer.tar"
    read -r layer layer_size < <(keep "$work/layer.tar.gz")
    printf '{"created":"%s","architecture":"%s","os":"linux","config":{"User":"%s","Entrypoint":["%s"],"WorkingDir":"/"},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$created" "$arch" "$user" "$entrypoint" "$plain" >"$work/config"
    read -r config config_size < <(keep "$work/config")
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:%s","size":%s}]}' \
        "$config" "$config_size" "$layer" "$layer_size" >"$work/manifest"
    read -r manifest manifest_size < <(keep "$work/manifest")
    manifests+="${manifests:+,}"
    manifests+=$(printf '{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s,"platform":{"architecture":"%s","os":"linux"}}' \
        "$manifest" "$manifest_size" "$arch")
done
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' "$manifests" >"$work/index"
read -r index index_size < <(keep "$work/index")
# The name is written twice: containerd reads the one, the others the tag.
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:%s","size":%s,"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"}}]}' \
    "$index" "$index_size" "$name" "${name##*:}" >"$work/layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$work/layout/oci-layout"
mkdir -p "$(dirname "$out")"
pack "$work/layout" >"$out.new"
mv "$out.new" "$out"
echo "$out: $name, $(stat -c %s "$out") bytes, sha256:$index"
