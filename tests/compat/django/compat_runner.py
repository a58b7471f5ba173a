"""Django's test runner, which also writes a line for each test to descriptor 3: OUTCOME<tab>TEST."""

import os
import unittest

from django.test.runner import DiscoverRunner


class Outcomes(unittest.TextTestResult):
    def report(self, outcome, test):
        os.write(3, f"{outcome}\t{test.id()}\n".encode())

    def addSuccess(self, test):
        super().addSuccess(test)
        self.report("pass", test)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.report("fail", test)

    def addError(self, test, error):
        super().addError(test, error)
        self.report("error", test)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.report("fail", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.report("skip", test)

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.report("xfail", test)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.report("xpass", test)


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return Outcomes
