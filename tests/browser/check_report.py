#!/usr/bin/env python3
"""Opens a report in headless Chromium and does what a reader does: selects heads, hovers, locks,
follows a deep link, changes the theme. Fails on any console message, any request, any wrong state.
With --shots FOLDER it also keeps pictures of the sections.

    tests/browser/check_report.py report.html [--shots docs/report]

Needs Debian's chromium, chromium-driver and python3-selenium (scripts/browser-check installs them).
"""
import argparse
import json
import pathlib
import sys
import time

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select


def start_browser():
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1900",
                 "--force-color-profile=srgb", "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options)


class Page:
    def __init__(self, browser, path):
        self.browser = browser
        self.url = pathlib.Path(path).resolve().as_uri()

    def open(self, fragment=""):
        self.browser.get("about:blank")
        self.browser.get(self.url + fragment)

    def find(self, css):
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def text(self, css):
        return self.find(css).text

    def expect(self, what, holds):
        if not holds:
            raise AssertionError(what)
        print("ok:", what)

    def data(self):
        return json.loads(self.find("#data").get_attribute("textContent"))


def check_heads(page):
    data = page.data()
    heads = [h["head"] for h in data["examination"]["heads"]]
    page.expect("every head has a cell",
                len(page.browser.find_elements(By.CSS_SELECTOR, "#grid-table button")) == len(heads))
    page.find(f'#grid-table button[data-head="{heads[-1]}"]').click()
    page.expect("a click selects a head", page.text("#head-name") == heads[-1])
    page.expect("the address names it", page.browser.current_url.endswith("#" + heads[-1]))
    page.find(f'#grid-table button[data-head="{heads[-1]}"]').send_keys(Keys.ARROW_LEFT)
    page.expect("an arrow key moves on", page.text("#head-name") == heads[-2])
    page.open("#" + heads[1])
    page.expect("a deep link opens its head", page.text("#head-name") == heads[1])


def check_pattern(page):
    overlay = page.find("#overlay")
    tokens = page.browser.find_elements(By.CSS_SELECTOR, "#tokens > span")
    page.expect("tokens are shown", len(tokens) == len(page.data()["shown"][0]["tokens"]))
    page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", overlay)
    spent = page.browser.execute_script(
        "const o = document.getElementById('overlay'), b = o.getBoundingClientRect();"
        "const start = performance.now();"
        "for (let k = 0; k < 20; ++k) o.dispatchEvent(new MouseEvent('mousemove',"
        " {clientX: b.left + 2, clientY: b.top + b.height * (k + .5) / 20}));"
        "document.body.getBoundingClientRect();"
        "return (performance.now() - start) / 20")
    page.expect(f"a move of the mouse costs {spent:.1f} ms, far below what a hand notices", spent < 100)
    # The middle of the canvas is query T/2.
    ActionChains(page.browser).move_to_element(overlay).perform()
    hovered = page.text("#hover")
    page.expect("hovering tells what the query looks at: " + hovered,
                int(hovered.split()[1]) - len(tokens) // 2 in (-1, 0) and "looks at" in hovered)
    ActionChains(page.browser).click().perform()
    held = page.text("#hover")
    page.expect("a click holds it", held.startswith("held: " + hovered.split(" looks")[0]))
    ActionChains(page.browser).move_by_offset(0, 60).perform()
    page.expect("it stays when the mouse goes on", page.text("#hover") == held)
    page.find("body").send_keys(Keys.ESCAPE)
    page.expect("Escape lets go", page.text("#hover") == "")
    overlay.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    page.expect("the pattern can be walked by keyboard", page.text("#hover").startswith("held: query 1 "))
    overlay.send_keys(Keys.ESCAPE)
    examples = page.browser.find_elements(By.CSS_SELECTOR, ".example")
    if examples:
        page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", examples[0])
        examples[0].click()
        page.expect("an example opens its row", page.text("#hover").startswith("held: query "))
        page.find("body").send_keys(Keys.ESCAPE)
    # Keys behind the query are not there: nothing is drawn right of the diagonal.
    alpha = page.browser.execute_script(
        "const c = document.getElementById('pattern');"
        "const g = c.getContext('2d');"
        "return [g.getImageData(c.width - 2, 2, 1, 1).data[3],"
        " g.getImageData(2, c.height - 2, 1, 1).data[3]]")
    page.expect("the future is not drawn, the past is", alpha == [0, 255])


def check_controls(page):
    for name in ("grid-metric", "time-metric", "alike-by", "shown"):
        select = Select(page.find("#" + name))
        for option in [o.get_attribute("value") for o in select.options]:
            select.select_by_value(option)
    for name in ("grid-raw", "grid-sink", "grid-sort"):
        page.find("#" + name).click()
        page.find("#" + name).click()
    before = page.browser.execute_script("return document.documentElement.dataset.theme")
    page.find("#theme").click()
    after = page.browser.execute_script("return document.documentElement.dataset.theme")
    page.expect("the theme changes", {before, after} == {"light", "dark"})
    page.find("#theme").click()


def check_silence(page):
    # This test's own look at the canvas earns a hint about reading it often.
    messages = [m for m in page.browser.get_log("browser")
                if "willReadFrequently" not in m["message"]]
    page.expect(f"the console is silent: {messages}", not messages)
    requests = []
    for entry in page.browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            requests.append(message["params"]["request"]["url"])
    foreign = [u for u in requests if not u.startswith(("file:", "data:", "about:", "blob:"))]
    other_files = [u for u in requests if u.startswith("file:") and not u.startswith(page.url)]
    page.expect(f"nothing is requested: {foreign + other_files}", not foreign and not other_files)


def take_shots(page, folder):
    folder.mkdir(parents=True, exist_ok=True)
    roles = [h for h in page.data()["examination"]["heads"]
             if h["role"] not in ("sink", "unclassified")]
    best = max(roles, key=lambda h: h["cost"]["mean"])["head"] if roles else "L0H0"
    for theme in ("light", "dark"):
        page.open("#" + best)
        page.browser.execute_script(
            f"if (document.documentElement.dataset.theme !== '{theme}')"
            " document.getElementById('theme').click()")
        sections = ("findings", "grid", "timeline", "head", "worth") if theme == "light" else ("head",)
        for section in sections:
            element = page.find("#" + section)
            page.browser.execute_script("arguments[0].scrollIntoView()", element)
            time.sleep(0.2)
            suffix = "" if theme == "light" else "-dark"
            element.screenshot(str(folder / f"{section}{suffix}.png"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("report")
    parser.add_argument("--shots", type=pathlib.Path)
    given = parser.parse_args()
    browser = start_browser()
    try:
        page = Page(browser, given.report)
        start = time.monotonic()
        page.open()
        print(f"opens in {time.monotonic() - start:.1f} s")
        check_heads(page)
        check_pattern(page)
        check_controls(page)
        check_silence(page)
        if given.shots:
            take_shots(page, given.shots)
    finally:
        browser.quit()
    print("the report does what a reader expects")


if __name__ == "__main__":
    sys.exit(main())
