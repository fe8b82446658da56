# The image of the scheduler and the guard, the same as `make image` makes without a container engine: the same files, user and labels.
#
#   docker build -t registry.example.com/quartermaster:v1 $(make -s build-args) .
#
# It needs BuildKit (or Podman), which set TARGETOS and TARGETARCH, for several platforms at a time as well (--platform).

FROM --platform=$BUILDPLATFORM golang:1.26.8 AS build
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    make bin/image-root IMAGE_PLATFORMS=$TARGETOS/$TARGETARCH

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="quartermaster"
LABEL org.opencontainers.image.description="A scheduler for devices in Kubernetes (dynamic resource allocation), and its guard"
LABEL org.opencontainers.image.source="https://github.com/quartermaster-dra/quartermaster"
LABEL org.opencontainers.image.licenses="Apache-2.0"
LABEL org.opencontainers.image.version="$VERSION"
LABEL org.opencontainers.image.revision="$REVISION"
LABEL org.opencontainers.image.created="$CREATED"
COPY --from=build /src/bin/image-root/ /
WORKDIR /
# A number, so that the kubelet can check runAsNonRoot. No such user exists, and it owns no file.
USER 65532:65532
# The guard is beside it: /guard.
ENTRYPOINT ["/scheduler"]
