def table(r):
    return ""


def figure(r):
    return None
