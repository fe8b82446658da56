// Package architecture checks what docs/architecture.md promises about the code.
package architecture
