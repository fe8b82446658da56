//go:build unix && !linux

package scheduler

import "syscall"

// childAttributes puts the child into a separate process group, so that a Ctrl-C in the terminal reaches only the
// parent, which stops its children in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
