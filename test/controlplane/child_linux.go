package controlplane

import "syscall"

// ChildAttributes make a child process die with its parent, however that
// ends, and keep a terminal's Ctrl-C to the parent, which then ends the child
// in its own time.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
