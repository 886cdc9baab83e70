# draftgate with the embedded llama.cpp server and its 270M test model, for compose.yaml.
FROM python:3.11-slim

# The slim image lacks OpenMP, which the llama.cpp wheel is linked against.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*

COPY . /src
RUN pip install --no-cache-dir "/src[embedded]" && rm -rf /src

# A volume that is mounted here takes over the folder's owner.
RUN useradd --create-home --home-dir /var/lib/draftgate draftgate
USER draftgate
WORKDIR /var/lib/draftgate
ENV XDG_CACHE_HOME=/var/lib/draftgate/cache \
    XDG_STATE_HOME=/var/lib/draftgate/state

ENTRYPOINT ["draftgate"]
CMD ["--help"]
