package pricebook

const (
	// Rules is the version of billing's rules from which on a journal takes applied books.
	Rules = 4
	// Max bounds the price books of a journal, with those that are not in force yet: a snapshot has all of them, and one message of NATS.
	Max = 200
)
