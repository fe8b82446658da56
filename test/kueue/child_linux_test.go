package kueue

import "syscall"

// childAttributes has the kernel end a child if this process dies without doing so.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
