// Package webmap tests the map of kubectl devices in a real browser: Debian's chromium, without a screen, driven through the
// WebDriver protocol (https://www.w3.org/TR/webdriver2/). Without a browser its tests are skipped; make test-browser
// prints instructions to get one.
package webmap
