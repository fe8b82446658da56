// Package architecture checks what the documents promise: the package table of
// docs/design/architecture.md about imports, and how large packages and files may be; the table of
// releases, links, and the names of tests (docs/design/tests.tsv), metrics and make targets; that the messages of
// docs/troubleshooting.md are those of the code; and that pages are short and those for users name no tests and commits. It also checks
// habits of the code: who may read the kinds of a device request, write claims and calculate with quantities, and that comments, messages,
// documents and manifests are in plain English.
//
// It takes half a minute: it compiles the product to look at its types.
package architecture
