# fedcli for CPUs: docker build -t fedcli . && docker run --rm -v "$PWD:/data" fedcli demo
# With a GPU: docker build --build-arg PIP_EXTRA_INDEX_URL= -t fedcli . and docker run --gpus all
FROM python:3.13-slim AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels
RUN useradd --create-home --uid 1000 fedcli && mkdir /data && chown 1000 /data
USER 1000
WORKDIR /data
ENTRYPOINT ["fedcli"]
CMD ["--help"]
