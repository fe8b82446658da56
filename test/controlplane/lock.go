package controlplane

import (
	"fmt"
	"os"
	"syscall"
)

// folderLock keeps a second control plane, in this or another process, out of
// a data folder. The kernel drops it when its holder dies.
type folderLock struct{ file *os.File }

func lockFolder(d dataFolder) (*folderLock, error) {
	file, err := os.OpenFile(d.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder %s: %w", d.root, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock the data folder %s: another control plane is using it (%w); stop that one or name another folder in Options.Dir", d.root, err)
	}
	return &folderLock{file: file}, nil
}

func (l *folderLock) release() error { return l.file.Close() }
