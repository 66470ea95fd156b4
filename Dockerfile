# fedcli for CPUs: docker build -t fedcli . && docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" fedcli demo
# With optional packages: docker build --build-arg EXTRAS=timm,export -t fedcli .
# With a GPU: docker build --build-arg PIP_EXTRA_INDEX_URL= -t fedcli . and docker run --gpus all
FROM python:3.13-slim AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
ARG EXTRAS=
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)${EXTRAS:+[$EXTRAS]}" && rm -r /wheels
# Of the two OpenCVs that packages bring, the one that needs no libGL, which this image lacks, has to be the last.
RUN pip uninstall --yes opencv-python && \
    pip install --no-cache-dir --no-deps --force-reinstall opencv-python-headless
# Any user may run it: docker run --user. One without a name here has the same home.
RUN useradd --create-home --uid 1000 fedcli && chmod 1777 /home/fedcli && mkdir --mode 1777 /data
ENV HOME=/home/fedcli USER=fedcli
USER 1000
WORKDIR /data
ENTRYPOINT ["fedcli"]
CMD ["--help"]
