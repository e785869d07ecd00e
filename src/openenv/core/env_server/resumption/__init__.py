"""Sessions that outlive a socket: resumed by their client, recovered from the journal, forked."""
