"""What the tests of llama-server need to meet another server: no models are downloaded before them,
and routes that it has with and without /v1 are asked for with it."""

import utils

WITH_V1 = ("/chat/completions", "/models")

utils.ServerPreset.load_all = staticmethod(lambda: None)
make_url = utils.ServerProcess.make_url


def make_url_with_v1(self, path, host=None):
    return make_url(self, "/v1" + path if path in WITH_V1 else path, host)


utils.ServerProcess.make_url = make_url_with_v1
