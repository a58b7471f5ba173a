"""Settings for Django's own tests: one server for both databases, as its CI has it, from the environment."""

import os


def database(name):
    return {
        "ENGINE": "django.db.backends.mysql",
        "HOST": os.environ["COMPAT_HOST"],
        "PORT": os.environ["COMPAT_PORT"],
        "USER": os.environ["COMPAT_USER"],
        "PASSWORD": os.environ["COMPAT_PASSWORD"],
        "NAME": name,
        "OPTIONS": {"charset": "utf8mb4"},
        "TEST": {"CHARSET": "utf8mb4", "COLLATION": "utf8mb4_general_ci"},
    }


DATABASES = {"default": database("django"), "other": database("django_other")}
SECRET_KEY = "tests only"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "compat_runner.Runner"
