package licenses

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licences under which something may be linked, by SPDX identifier: those that ask for no more than to be passed on.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// covered is the percentage of a licence's file that must be known, as on pkg.go.dev. The rest are names, years and headings.
const covered = 75

// notLicense matches files that are passed on, and say nothing of how code is licensed: notices, and licences of documents, which are not linked.
var notLicense = regexp.MustCompile(`(?i)^(notice|patents|copyright)|\.docs$`)

// classify returns the licences of a module as an SPDX expression: they all hold.
func classify(module *Module) (string, error) {
	found := map[string]bool{}
	var others []string
	for _, file := range module.Files {
		if notLicense.MatchString(path.Base(file.Name)) {
			continue
		}
		coverage := licensecheck.Scan(file.Content)
		ids := map[string]bool{}
		for _, match := range coverage.Match {
			ids[match.ID] = true
		}
		if coverage.Percent < covered || len(ids) == 0 {
			others = append(others, fmt.Sprintf("%s: %.0f %% of the text are known (%s)", file.Name, coverage.Percent, strings.Join(slices.Sorted(maps.Keys(ids)), ", ")))
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			found[id] = true
			if !slices.Contains(allowed, id) {
				others = append(others, fmt.Sprintf("%s is %s", file.Name, id))
			}
		}
	}
	switch {
	case len(others) > 0:
		return "", fmt.Errorf("%s@%s is linked, and its licence is not allowed: %s. Allowed are %s (tools/dist/licenses/classify.go); do without the module, or decide that its licence is acceptable and add it there",
			module.Path, module.Version, strings.Join(others, "; "), strings.Join(allowed, ", "))
	case len(found) == 0:
		return "", fmt.Errorf("%s@%s is linked, and has no file with a licence in its folder, so nobody may pass it on; do without the module", module.Path, module.Version)
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " AND "), nil
}
