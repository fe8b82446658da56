//go:build unix && !linux

package controlplane

import "syscall"

// ChildAttributes keep a terminal's Ctrl-C to the parent, which then ends the
// child in its own time. A child outlives a parent that is killed: only Linux
// can prevent that.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
