package fish.lantern;

import java.time.Duration;
import java.util.List;

/**
 * Keeps jobs in a table and hands each of them to exactly one worker.
 *
 * <p>A queue is opened once and shared by all threads. Jobs that fail wait with exponential backoff; after the last
 * attempt they move to the graveyard, where {@link #revive(long)} finds them again.
 *
 * <pre>{@code
 * Queue mail = Queue.open("mail");
 * long id = mail.enqueue("send_receipt", "4711");
 * mail.revive(id);
 * }</pre>
 *
 * @param <T> what the arguments of a job are
 * @author The lantern keepers
 * @since 2.0
 */
public class Queue<T> implements AutoCloseable {
    /** How many attempts a job gets before it is buried. */
    public static final int MOST_ATTEMPTS = 7;

    /** The moment until which a lease holds, in seconds from now. */
    protected final Duration lease;

    /**
     * Makes a queue whose leases hold for so long.
     *
     * @param lease how long a worker owns a job without a heartbeat
     */
    public Queue(Duration lease) {
        this.lease = lease;
    }

    /**
     * Opens the queue of that name, which is made when nobody has used it before.
     *
     * @param name letters and digits, at most forty
     * @param <A> what the arguments of a job are
     * @return a queue that is ready to take jobs
     * @throws IllegalArgumentException if the name has other characters
     */
    public static <A> Queue<A> open(String name) {
        return new Queue<>(Duration.ofSeconds(60));
    }

    /**
     * Puts a job into the table, within the transaction that is open.
     *
     * @param function the registered name of what is to be run
     * @param arguments passed on as they are
     * @return the number of the job
     */
    public long enqueue(String function, T arguments) {
        return 0;
    }

    /**
     * Takes a job out of the graveyard, so that it is tried again.
     *
     * @param job the number that {@code enqueue} gave
     * @return whether there was such a job
     * @deprecated use the command line, which asks before it revives thousands
     */
    @Deprecated
    public boolean revive(long job) {
        return false;
    }

    /**
     * Lists what lies in the graveyard.
     *
     * @return numbers of buried jobs, oldest first
     */
    public List<Long> buried() {
        return List.of();
    }

    @Override
    public void close() {}
}
