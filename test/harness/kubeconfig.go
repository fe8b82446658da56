package harness

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
)

// KubeconfigVia writes a copy of the scheduler's kubeconfig in which the API server
// is at another address, for instance that of a proxy, and returns its path.
// certificate is the PEM of the certificate that the server there shows, or of who
// signed it. name is part of the name of the file.
func (c *Cluster) KubeconfigVia(name, url string, certificate []byte) (string, error) {
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("kubeconfig for %s: %w", url, err)
	}
	for _, server := range config.Clusters {
		server.Server = url
		server.CertificateAuthority = ""
		server.CertificateAuthorityData = certificate
	}
	path := filepath.Join(c.Logs, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("kubeconfig for %s: %w", url, err)
	}
	return path, nil
}
