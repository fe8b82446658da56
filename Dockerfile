# The scheduler and the guard as static binaries and nothing else: no shell, no libraries and
# no CA certificates. It needs none of the public ones: it talks to the API
# server only, whose CA comes with the service account or the kubeconfig.
#
# `make image` passes LDFLAGS with the version; without them the binary reports
# none. The image is for the platform of the machine that builds it.
FROM golang:1.26 AS build
WORKDIR /src
# The modules first, so that a change of our code does not download them again.
COPY go.mod go.sum ./
RUN go mod download
COPY cmd/scheduler cmd/scheduler
COPY cmd/guard cmd/guard
COPY internal internal
COPY pkg pkg
ARG LDFLAGS
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "${LDFLAGS}" -o / ./cmd/scheduler ./cmd/guard

FROM scratch
COPY --from=build /scheduler /guard /
# A number, so that the kubelet can check runAsNonRoot. No such user exists, and
# it owns no file.
USER 65532:65532
ENTRYPOINT ["/scheduler"]
