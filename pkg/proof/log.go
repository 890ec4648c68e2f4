package proof

// The log of an installation in its blob store. Edges serve what is after LogPrefix under /log/.
const (
	LogPrefix     = "log/"
	LogCheckpoint = LogPrefix + "checkpoint" // a signed note
	LogKey        = LogPrefix + "key"        // the verifier key of its signature, and a newline
)

// MinSecretBytes is the least length of the secret that the log's key is derived from.
const MinSecretBytes = 32
