# syntax=docker/dockerfile:1
# The images of the three services, one target each: command-api, projector, query-api; and `operator`, for jobs.
#   docker buildx build --target command-api --tag linkledger/command-api:0.1.0 --sbom=true --provenance=mode=max .
# In each of the services: one program, its bill of materials, the libraries that it needs, a user without rights,
# no shell. It writes no file, so its root can be read-only.

FROM rust:1.95-bookworm AS build
WORKDIR /src
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    cargo install --locked --root /tools cargo-cyclonedx@0.5.9
COPY . .
# The feature `tls` links the OpenSSL of the image. Registry and target folder are kept from build to
# build by the cache mounts, so what has not changed is not compiled again.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked \
        --package linkledger-command-api --package linkledger-projector --package linkledger-query-api \
        --features linkledger-command-api/tls,linkledger-projector/tls,linkledger-query-api/tls \
    && install -D --target-directory=/out \
        target/release/command-api target/release/projector target/release/query-api
# What is compiled into each program, by the lock file.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    PATH=/tools/bin:$PATH cargo cyclonedx --format json --spec-version 1.5 --no-build-deps --override-filename bill \
        --features linkledger-command-api/tls,linkledger-projector/tls,linkledger-query-api/tls \
    && install -D command-api/bill.json /out/command-api.cdx.json \
    && install -D projector/bill.json /out/projector.cdx.json \
    && install -D query-api/bill.json /out/query-api.cdx.json

# Operators' commands in scripts: command-api with bash and curl, for the job deploy/kubernetes/admin-key.yaml.
FROM buildpack-deps:bookworm-curl AS operator
ARG VERSION=0.1.0
LABEL org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="linkledger" \
      org.opencontainers.image.title="linkledger operator" \
      org.opencontainers.image.description="Operators' commands of command-api, with a shell"
COPY LICENSE /usr/share/doc/linkledger/LICENSE
COPY --from=build /out/command-api /usr/local/bin/command-api
COPY --from=build /out/command-api.cdx.json /usr/share/doc/linkledger/
USER 65532:65532
CMD ["/bin/bash"]

# glibc, libgcc, OpenSSL 3 and the certificates of authorities; its user `nonroot` is 65532.
FROM gcr.io/distroless/cc-debian12:nonroot AS runtime
ARG VERSION=0.1.0
LABEL org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="linkledger"
COPY LICENSE /usr/share/doc/linkledger/LICENSE
# By number: Kubernetes can't tell from a name that it is not root.
USER 65532:65532

FROM runtime AS command-api
LABEL org.opencontainers.image.title="linkledger command-api" \
      org.opencontainers.image.description="Accepts commands, appends events, relays them to Kafka"
COPY --from=build /out/command-api /usr/local/bin/command-api
COPY --from=build /out/command-api.cdx.json /usr/share/doc/linkledger/
ENV COMMAND_API_LISTEN=0.0.0.0:8082 \
    COMMAND_INTERNAL_LISTEN=0.0.0.0:9101
EXPOSE 8082 9101
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/command-api", "health"]
ENTRYPOINT ["/usr/local/bin/command-api"]
CMD ["serve"]

FROM runtime AS projector
LABEL org.opencontainers.image.title="linkledger projector" \
      org.opencontainers.image.description="Keeps the read tables up to date with the event log, and sends webhooks"
COPY --from=build /out/projector /usr/local/bin/projector
COPY --from=build /out/projector.cdx.json /usr/share/doc/linkledger/
# `webhooks`, the second process of the program, has a listener of its own.
ENV PROJECTOR_INTERNAL_LISTEN=0.0.0.0:9102 \
    WEBHOOKS_INTERNAL_LISTEN=0.0.0.0:9104
EXPOSE 9102 9104
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["/usr/local/bin/projector", "health"]
ENTRYPOINT ["/usr/local/bin/projector"]
CMD ["run"]

FROM runtime AS query-api
LABEL org.opencontainers.image.title="linkledger query-api" \
      org.opencontainers.image.description="Answers reads and follows short links"
COPY --from=build /out/query-api /usr/local/bin/query-api
COPY --from=build /out/query-api.cdx.json /usr/share/doc/linkledger/
ENV QUERY_API_LISTEN=0.0.0.0:8083 \
    QUERY_SHORT_LISTEN=0.0.0.0:8084 \
    QUERY_INTERNAL_LISTEN=0.0.0.0:9103
EXPOSE 8083 8084 9103
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/query-api", "health"]
ENTRYPOINT ["/usr/local/bin/query-api"]
CMD ["serve"]
